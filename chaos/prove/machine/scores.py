"""The outcomes of the machine's mutants: a score for each room, and a record of each mutant with its difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.trial import Fate, MutantTrial

NOTICED = (Fate.CAUGHT, Fate.BROKEN)
"""What a machine makes may just as well crash or hang; a check that the code as it is passes does not let that pass."""


class Round(str, Enum):
    """How far a mutant has come."""

    QUICK = "quick"
    LONG = "long"


@dataclass(frozen=True)
class Tried:
    """One mutant of the machine and its trial; without one it is in the table of those that change nothing."""

    made: Made
    trial: MutantTrial | None
    reason: str = ""
    last: Round = Round.LONG
    is_alone: bool = False
    """Whether what was not done in time has been tried again, alone."""

    @property
    def must_be_alone(self) -> bool:
        """Whether a check was not done in time beside others, which says nothing yet."""
        return self.trial is not None and bool(self.trial.hung) and not self.is_alone

    @property
    def is_noticed(self) -> bool:
        """Whether a check ended otherwise than on the code as it is."""
        return self.trial is not None and self.trial.fate in NOTICED and not self.must_be_alone

    @property
    def is_open(self) -> bool:
        """Whether another round may still notice it."""
        return self.trial is not None and not self.is_noticed and (self.last is Round.QUICK or self.must_be_alone)

    @property
    def is_missed(self) -> bool:
        """Whether no check of any round notices it, and it is not listed as equivalent."""
        return self.trial is not None and not self.is_noticed and not self.is_open

    def to_json(self) -> dict[str, Any]:
        """One record."""
        place = {"room": self.made.room, "file": self.made.file, "line": self.made.line}
        trial = None if self.trial is None else self.trial.to_json()
        return {
            **place,
            "operator": self.made.operator,
            "told": self.made.told(),
            "key": self.made.key,
            "reason": self.reason,
            "round": self.last.value,
            "is_alone": self.is_alone,
            "trial": trial,
        }


@dataclass
class Score:
    """The mutants of a room, counted by outcome."""

    mutants: int = 0
    caught: int = 0
    crashed: int = 0
    """Noticed by a crash alone."""
    hung: int = 0
    """Noticed by a check that, alone as well, takes ten times as long as without the mutant."""
    survived: int = 0
    not_judged: int = 0
    """No check executes them, or none could be run."""
    open: int = 0
    """The quick checks have not noticed them, and the time was over before the long ones."""
    equivalent: int = 0

    @property
    def percent(self) -> float:
        """Of the mutants that change something, how many were noticed."""
        count = self.mutants - self.equivalent
        return 100.0 * (self.caught + self.crashed + self.hung) / count if count else 100.0

    def add(self, tried: Tried) -> None:
        """One mutant more."""
        self.mutants += 1
        if tried.trial is None:
            self.equivalent += 1
        elif tried.is_open:
            self.open += 1
        elif tried.trial.fate is Fate.CAUGHT:
            self.caught += 1
        elif tried.trial.fate is Fate.BROKEN:
            self.hung += bool(tried.trial.hung)
            self.crashed += not tried.trial.hung
        elif tried.trial.fate is Fate.SURVIVED:
            self.survived += 1
        else:
            self.not_judged += 1

    def to_json(self) -> dict[str, Any]:
        """One record."""
        return {**asdict(self), "percent": round(self.percent, 1)}


def scores(all_tried: Sequence[Tried]) -> dict[str, Score]:
    """By room, and of all rooms together."""
    found: dict[str, Score] = {}
    for tried in all_tried:
        for name in (tried.made.room, "all"):
            found.setdefault(name, Score()).add(tried)
    return dict(sorted(found.items(), key=lambda one: (one[0] == "all", one[0])))


def table_of(found: dict[str, Score]) -> Iterator[str]:
    """The table of the documents."""
    columns = ("mutants", "caught", "crashed", "hung", "survived", "not_judged", "open", "equivalent")
    yield f"| room | {' | '.join(columns).replace('_', ' ')} | noticed |"
    yield f"|---|{'---|' * len(columns)}---|"
    for room, one in found.items():
        yield f"| {room} | {' | '.join(str(getattr(one, column)) for column in columns)} | {one.percent:.1f} % |"
