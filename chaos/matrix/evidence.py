"""What is on record of a case: its faults as they were made, and the steps that its processes reached. Pure.

Held against what was planned, this is the evidence that a case needs to pass; from it follows how long recovery took.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpc.chaos.checkers.compare import Check, recovery_bounded
from tpc.chaos.faults.hits import StepHit, first_new_epoch_at
from tpc.chaos.matrix.case import Case, CaseFailedError

REPEATS = 2.0
"""How many times as long as the first life until its fault a restart may take."""


@dataclass(frozen=True)
class Evidence:
    """The recordings of one case.

    `made` are the records of the faults that were made, by their number in the case; `in_vain` says of a fault what the
    process at its step has waited for and never got.
    """

    case: Case
    made: Mapping[int, Mapping[str, Any]]
    hits: Sequence[StepHit] = ()
    in_vain: Mapping[int, str] = field(default_factory=dict)

    @property
    def first(self) -> int:
        """The number of the case's own first fault; the setup comes before it."""
        return 0 if self.case.setup is None else 1

    @property
    def fired(self) -> list[dict[str, Any]]:
        """The faults as they were made, the setup's not among them."""
        return [dict(fault) for number, fault in self.made.items() if number >= self.first]

    @property
    def epoch(self) -> int | None:
        """The epoch of the case's own first fault as its step told it.

        The steps of a recovery tell none: then it is the epoch that was in doubt, as the fault of the life before told
        it.
        """
        numbers = (self.first, self.first - 1)
        epochs: list[int | None] = [self.made[number]["epoch"] for number in numbers if number in self.made]
        return next((epoch for epoch in epochs if epoch is not None), None)

    def require_faults(self) -> None:
        """Every fault was made at its place, and while a branch was prepared where the case counts.

        The setup may find none. Raises `CaseFailedError`.
        """
        for number, planned in enumerate(self.case.faults):
            fault = f"{planned.kind} at {planned.step}"
            if number in self.in_vain:
                raise CaseFailedError(f"{fault}: its process waited in vain for {self.in_vain[number]}")
            places = {"step": planned.step, "epoch": planned.epoch, "sink": planned.sink}
            for name, wanted in places.items():
                observed = self.made[number][name]
                if observed is not None and wanted is not None and observed != wanted:
                    raise CaseFailedError(f"{planned.kind} was made at {name} {observed}, not at {name} {wanted}")
        for made in self.fired if self.case.counts else ():
            if not made["prepared"]:
                raise CaseFailedError(f"{made['fault']} at {made['step']} was made while no branch was prepared")

    def disturbed(self, ended_at: Iterable[float | None]) -> tuple[float, float]:
        """From the first fault to the end of the last life, in seconds since 1970; None for a life without an end."""
        return self.fired[0]["at"], max(at or 0.0 for at in ended_at)

    def recovery_bound_s(self, began_at: Sequence[float], *, least_s: float) -> float:
        """How long a restart may take, by what the machine has shown: it repeats what came before the first fault.

        That may be an epoch of a million rows, on a machine that does other work too.
        """
        first_fault_at: float = min(fault["at"] for fault in self.made.values())
        return max(least_s, REPEATS * (first_fault_at - began_at[0]))

    def recovery(
        self, began_at: Sequence[float], *, bound_s: float, hopeless_lives: int = 0
    ) -> tuple[float | None, Check]:
        """How long a restart took to the first new epoch, in seconds, and whether the pipeline was back in time.

        `began_at` is when each life began, in seconds since 1970; `hopeless_lives` of those after the last fault could
        not come to anything. Where no life followed, the time is None, and the pipeline must have gone on by itself.
        """
        restarted = len(self.case.faults) + hopeless_lives
        if len(began_at) <= restarted:
            return None, self._went_on(bound_s)
        at = first_new_epoch_at(self.hits, restarted)
        took_s = None if at is None else round(at - began_at[restarted], 3)
        return took_s, recovery_bounded("recovery is bounded", [took_s], bound_s=bound_s)

    def _went_on(self, bound_s: float) -> Check:
        """Whether any epoch, the disturbed one too, was complete soon enough after the last fault."""
        name, fault_at = "the pipeline goes on in time after the fault", self.fired[-1]["at"]
        later = [hit.at - fault_at for hit in self.hits if hit.step == "epoch.completed" and hit.at > fault_at]
        if not later:
            return Check(name, False, "no epoch was complete after it")
        took_s = min(later)
        detail = f"{took_s:.1f} s from the fault to the next complete epoch, bound {bound_s:g} s, no restart"
        return Check(name, took_s <= bound_s, detail, numbers={"ms": round(took_s * 1000)})
