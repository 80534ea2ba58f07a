"""What was seen of a run: the lives of the pipeline, and the faults with what came of each. Plain records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tpc.chaos.faults.fault import StepFault
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.runner.ends import FENCED, FINAL, RETRY


@dataclass(frozen=True)
class PlannedFault:
    """A fault by the name that users know it by."""

    kind: str
    fault: StepFault

    def __str__(self) -> str:
        fault = self.fault
        place = ", ".join(filter(None, (fault.record, fault.sink)))
        held = f" for {fault.seconds:.1f} s" if self.kind == "hang" else ""
        return f"{self.kind} at {fault.step}" + (f" ({place})" if place else "") + held


@dataclass
class Life:
    """One process of the pipeline. Times are seconds since 1970; the log's offsets are bytes of the common log file."""

    number: int
    round: int
    pid: int
    started_at: float
    log_from: int
    attempt: Attempt | None = None
    ended_at: float | None = None
    code: int | None = None
    log_to: int = 0
    given_up: str = ""
    """Why it was given up; empty if it came to an end of its own."""
    deposed: bool = False
    """Whether its successor has killed it: it stood still and had a file locked (`tpc.support.stopped_lock_holder`)."""
    left_early: bool = False
    """Whether it ended with exit code 0 and its query had not come to the end of its input."""

    @property
    def overdue(self) -> bool:
        """Whether it took too long and was given up."""
        return bool(self.given_up)

    @property
    def disturbed(self) -> bool:
        """Whether its fault was made."""
        return self.attempt is not None and self.attempt.fired is not None

    @property
    def ended_by_itself(self) -> bool:
        """Whether it ended otherwise than well, and no fault explains it."""
        return self.code is not None and (self.code != 0 or self.left_early) and not self.disturbed

    @property
    def tried_again(self) -> bool:
        """Whether it ended with an error whose remedy is a restart: a system that was slow, or not over a fault yet."""
        return self.ended_by_itself and self.code == RETRY


@dataclass
class Attempt:
    """A fault of the plan. `lives` are those that had it; it was made, if at all, in the last of them."""

    number: int
    planned: PlannedFault
    lives: list[Life] = field(default_factory=list)
    fired: Mapping[str, Any] | None = None
    """The record of the fault as it was made (`chaos.faults`), None if its place was not reached."""
    next: Life | None = None
    """The life that recovered: the next one, or that of the driver which took over from a stopped one."""

    @property
    def unseen(self) -> bool:
        """Whether the run was left before it could be seen what came of the fault."""
        code = self.lives[-1].code
        if code is None or (self.next is not None and self.next.code is None):
            return True
        return self.next is None and code != 0 and code not in FINAL

    @property
    def wrong(self) -> str:
        """What is wrong with the end of the life that had the fault; empty if it ended as it should."""
        life = self.lives[-1]
        if life.overdue:
            return f"the pipeline did not come to an end by itself and was given up: {life.given_up}"
        if self.planned.kind == "zombie":
            return self._wrong_zombie(life) or self._wrong_zero(life)
        if (final := FINAL.get(life.code or 0)) is not None:
            return f"exit code {life.code} ({final})"
        if self.planned.kind == "hang" and life.code not in (0, RETRY):
            return f"exit code {life.code}: a hang ends by itself, and that is no reason to end so"
        if self.next is not None and self.next.overdue:
            return f"the life after it did not come to an end by itself: {self.next.given_up}"
        return self._wrong_zero(life)

    def _wrong_zero(self, life: Life) -> str:
        """Exit code 0 where something else was due."""
        if early := next((one for one in (life, self.next) if one is not None and one.left_early), None):
            return f"life {early.number} ended with exit code 0 before the end of its input"
        if self.planned.kind == "kill" and life.code == 0:
            return "the kill is on record, and the pipeline ended with exit code 0: nothing was killed"
        return ""

    def _wrong_zombie(self, life: Life) -> str:
        if self.next is None or self.next.code != 0:
            return f"the driver that took over ended with {None if self.next is None else self.next.code}"
        # As fenced; or with an error whose remedy is a restart, as where the log did not answer when it woke up.
        # Or killed by its successor, which says so: it stood still and had a file locked that both write to.
        if life.code in (FENCED, RETRY) or life.deposed:
            return ""
        return f"the stopped driver ended with {life.code}, not as fenced"


def recovery_s(life: Life, hits: Iterable[StepHit]) -> float | None:
    """From the start of a life's process to its first complete epoch; None if it completed none."""
    complete = (hit.at for hit in hits if hit.life == life.number and hit.step == "epoch.completed")
    first = min(complete, default=None)
    return None if first is None else first - life.started_at
