"""The outcomes of the machine's mutants: a score for each room, and a record of each mutant with its difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.trial import Fate, MutantTrial

NOTICED = (Fate.CAUGHT, Fate.BROKEN)
"""What a machine makes may just as well crash or hang; a check that the code as it is passes does not let that pass."""


@dataclass(frozen=True)
class Tried:
    """One mutant of the machine and its trial; without one it is in the table of those that change nothing."""

    made: Made
    trial: MutantTrial | None
    reason: str = ""

    @property
    def is_noticed(self) -> bool:
        """Whether a check ended otherwise than on the code as it is."""
        return self.trial is not None and self.trial.fate in NOTICED

    def to_json(self) -> dict[str, Any]:
        """One record."""
        place = {"room": self.made.room, "file": self.made.file, "line": self.made.line}
        trial = None if self.trial is None else self.trial.to_json()
        return {
            **place,
            "operator": self.made.operator,
            "told": self.made.told(),
            "reason": self.reason,
            "trial": trial,
        }


@dataclass
class Score:
    """The mutants of a room, counted by outcome."""

    mutants: int = 0
    caught: int = 0
    crashed: int = 0
    """Noticed by a crash or a hang alone."""
    survived: int = 0
    not_judged: int = 0
    """No check executes them, or none could be run."""
    equivalent: int = 0

    @property
    def percent(self) -> float:
        """Of the mutants that change something, how many were noticed."""
        count = self.mutants - self.equivalent
        return 100.0 * (self.caught + self.crashed) / count if count else 100.0

    def add(self, tried: Tried) -> None:
        """One mutant more."""
        self.mutants += 1
        fate = None if tried.trial is None else tried.trial.fate
        self.equivalent += fate is None
        self.caught += fate is Fate.CAUGHT
        self.crashed += fate is Fate.BROKEN
        self.survived += fate is Fate.SURVIVED
        self.not_judged += fate in (Fate.NOT_JUDGED, Fate.SKIPPED)

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
    yield "| room | mutants | caught | crashed | survived | not judged | equivalent | noticed |"
    yield "|---|---|---|---|---|---|---|---|"
    for room, one in found.items():
        counts = (one.mutants, one.caught, one.crashed, one.survived, one.not_judged, one.equivalent)
        yield f"| {room} | {' | '.join(map(str, counts))} | {one.percent:.1f} % |"
