"""How far a life has come by its recording, and whether a fault that goes by that is due at a step. Pure.

Such a fault (`StepFault.after_epochs`) is due only after so many epochs that began after the restart are complete.
Between two commits it is due when some sinks have committed; the others wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from tpc.chaos.faults.fault import StepFault
from tpc.chaos.faults.hits import StepHit

Where = Mapping[str, Any]


class Answer(Enum):
    """What happens to the process at a step."""

    GO_ON = auto()
    HOLD = auto()
    """It waits for a fault that is due at another process's step."""
    DUE = auto()


@dataclass
class LifeProgress:
    """What has been seen since the last restart."""

    complete: int = 0
    """Epochs that this life has run itself, and completed."""
    _passed: set[int] = field(default_factory=set)
    """Epochs whose pass ended in this life: an epoch that recovery merely finishes is not one of them."""
    _branches: int = 0
    """Branches of the running pass about to be prepared."""
    _allowed: set[str] = field(default_factory=set)
    """Sinks that may commit in the epoch which is to be hit between two commits."""
    _committed: set[str] = field(default_factory=set)
    _held: set[str] = field(default_factory=set)

    def answer(self, fault: StepFault | None, step: str, where: Where) -> Answer:
        """What is to be done at `step`, when `fault` is the next. Every step of the life comes here once, in order."""
        self._count(step, where)
        answer = Answer.GO_ON if fault is None else self._answer(fault, step, where)
        if step == "epoch.prepared":
            self._branches = 0
        if step == "epoch.completed" and where["epoch"] in self._passed and answer is Answer.GO_ON:
            self.complete += 1  # only now: the epoch at whose end a fault comes is not one before it
        return answer

    def _count(self, step: str, where: Where) -> None:
        if step == "epoch.prepared":
            self._passed.add(where["epoch"])
        elif step == "epoch.decided":
            self._allowed, self._committed, self._held = set(), set(), set()
        elif step == "pass.prepare":
            self._branches += 1

    def _answer(self, fault: StepFault, step: str, where: Where) -> Answer:
        if self.complete < (fault.after_epochs or 0):
            return Answer.GO_ON
        if step == fault.step and self._is_nth(fault, step, where):
            return Answer.DUE
        if fault.step == "sink.committed" and step == "sink.commit" and where["epoch"] in self._passed:
            return self._before_commit(fault, where["sink"])
        return Answer.GO_ON

    def _is_nth(self, fault: StepFault, step: str, where: Where) -> bool:
        if step == "pass.prepare":
            return self._branches >= fault.nth
        if step == "sink.committed":
            self._committed.add(where["sink"])
            return len(self._committed) >= min(fault.nth, len(self._allowed)) and bool(self._held)
        return where["epoch"] in self._passed

    def _before_commit(self, fault: StepFault, sink: str) -> Answer:
        """So many sinks may commit; the others wait, so that the fault falls between one's commit and another's."""
        if sink in self._allowed or len(self._allowed) < fault.nth:
            self._allowed.add(sink)
            return Answer.GO_ON
        self._held.add(sink)
        return Answer.DUE if len(self._committed) >= fault.nth else Answer.HOLD


def answer_at(fault: StepFault, recorded: Iterable[StepHit], hit: StepHit) -> Answer:
    """What is to be done at `hit`, by what its life has recorded up to it: in every process the same."""
    progress, line = LifeProgress(), hit.line()
    for each in recorded:
        answer = progress.answer(fault, each.step, each.where)
        if each.line() == line:
            return answer
    return Answer.GO_ON


def epochs_complete(recorded: Iterable[StepHit], life: int, *, before: float, but: int | None = None) -> int:
    """How many epochs a life has run itself and completed before a time, `but` not counted."""
    progress = LifeProgress()
    for hit in recorded:
        if hit.life == life and hit.at <= before and (hit.step, hit.where.get("epoch")) != ("epoch.completed", but):
            progress.answer(None, hit.step, hit.where)
    return progress.complete
