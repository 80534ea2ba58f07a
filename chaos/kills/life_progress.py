"""How far a life of the pipeline has come, and whether the next kill of the plan is due at the step that it reports.

A kill is due, and counts, only after an epoch that began after the last restart is complete. Knows no process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from tpc.chaos.kills.plan import Kill, Step, StepKill

STEP_OF_FAILPOINT: Mapping[str, Step] = {
    "pass.prepare": Step.DURING_PASS,
    "epoch.prepared": Step.BEFORE_INTENT,
    "epoch.decided": Step.BEFORE_COMMITS,
    "sink.committed": Step.BETWEEN_COMMITS,
    "epoch.committed": Step.BEFORE_COMPLETE,
    "epoch.completed": Step.BEFORE_SPARK_COMMIT,
}

Where = Mapping[str, Any]


class Answer(Enum):
    """What becomes of the process that reports a step."""

    GO_ON = auto()
    HOLD = auto()
    """It waits for a kill that is due at another process's step."""
    KILL = auto()


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
    """Sinks that may commit in the epoch which is to be killed between two commits."""
    _committed: set[str] = field(default_factory=set)
    _held: set[str] = field(default_factory=set)

    def answer(self, kill: Kill | None, step: str, where: Where) -> Answer:
        """What is to be done at `step`, when `kill` is the next of the plan. Every step of the life comes here once."""
        self._count(step, where)
        answer = self._answer(kill, step, where) if isinstance(kill, StepKill) else Answer.GO_ON
        if step == "epoch.prepared":
            self._branches = 0
        if step == "epoch.completed" and where["epoch"] in self._passed and answer is Answer.GO_ON:
            self.complete += 1  # only now: the epoch at whose end a kill comes is not one before it
        return answer

    def _count(self, step: str, where: Where) -> None:
        if step == "epoch.prepared":
            self._passed.add(where["epoch"])
        elif step == "epoch.decided":
            self._allowed, self._committed, self._held = set(), set(), set()
        elif step == "pass.prepare":
            self._branches += 1

    def _answer(self, kill: StepKill, step: str, where: Where) -> Answer:
        if self.complete < kill.epochs:
            return Answer.GO_ON
        if STEP_OF_FAILPOINT.get(step) is kill.step and self._is_nth(kill, step, where):
            return Answer.KILL
        if kill.step is Step.BETWEEN_COMMITS and step == "sink.commit" and where["epoch"] in self._passed:
            return self._before_commit(kill, where["sink"])
        return Answer.GO_ON

    def _is_nth(self, kill: StepKill, step: str, where: Where) -> bool:
        if step == "pass.prepare":
            return self._branches >= kill.nth
        if step == "sink.committed":
            self._committed.add(where["sink"])
            return len(self._committed) >= min(kill.nth, len(self._allowed)) and bool(self._held)
        return where["epoch"] in self._passed

    def _before_commit(self, kill: StepKill, sink: str) -> Answer:
        """So many sinks may commit; the others wait, so that the kill falls between one's commit and another's."""
        if sink in self._allowed or len(self._allowed) < kill.nth:
            self._allowed.add(sink)
            return Answer.GO_ON
        self._held.add(sink)
        return Answer.KILL if len(self._committed) >= kill.nth else Answer.HOLD
