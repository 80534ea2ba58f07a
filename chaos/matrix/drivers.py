"""The lives of one case: each is started, waited for, and ended; on a session that nobody is stopped in, in turn.

What happens to them is noted in the case's record. Which faults strike them is for others to say.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from tpc.chaos.faults.fault import StepFault
from tpc.chaos.matrix.case import CaseFailedError
from tpc.chaos.matrix.lives import DriverLife, Order
from tpc.chaos.matrix.pipeline import PipelineUnderTest
from tpc.chaos.matrix.records import CaseRecord
from tpc.chaos.matrix.sessions import Gateway, WarmSession
from tpc.chaos.running.signals import send
from tpc.support.deadlines import Deadline

LIFE_TIMEOUT_S = 240.0
POLL_S = 0.02


class Drivers:
    """The drivers of one pipeline. `doctor`: a function that breaks the library in each of them (see `lives.Order`)."""

    def __init__(
        self, pipeline: PipelineUnderTest, sessions: list[WarmSession], record: CaseRecord, *, doctor: str | None = None
    ) -> None:
        self.pipeline = pipeline
        self.sessions = sessions
        self.record = record
        self.doctor = doctor
        self.lives: list[DriverLife] = []
        self.life_timeout_s = LIFE_TIMEOUT_S
        self._entered: dict[int, WarmSession] = {}

    @property
    def log(self) -> Path:
        """What all of them have written."""
        return self.pipeline.directory / "driver.log"

    @property
    def stopped(self) -> list[DriverLife]:
        """Those that were stopped and have not ended."""
        return [life for life in self.lives if life.exit_code is None]

    def begin(self, faults: Mapping[int, StepFault], *, standby: bool = False) -> DriverLife:
        """A new life, struck by `faults`; it takes over when another one is stopped, or stands by."""
        number, takeover = len(self.lives), bool(self.stopped) and not standby
        gateway = self._entered_by(number) if self.pipeline.needs_session else None
        life = DriverLife(Order(self.pipeline, gateway, number, self.log, takeover, standby, self.doctor), faults)
        self.lives.append(life)
        begins = "stands by" if standby else "takes over" if takeover else "begins"
        self.record.note(f"life {number} {begins}", life.began_at)
        return life

    def _entered_by(self, number: int) -> Gateway:
        """The way into a session that nobody is stopped in, for this life."""
        busy = [self._entered[life.number] for life in self.stopped]
        free = [session for session in self.sessions if session not in busy]
        self._entered[number] = free[number % len(free)]
        return self._entered[number].gateway

    def wait(self, life: DriverLife, *, stoppable: bool = False, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Until it has ended, or is stopped if it may be; whether it is stopped. `meanwhile` is called again and again.

        Raises `CaseFailedError` when it does neither in time.
        """
        deadline = Deadline(self.life_timeout_s)
        while not life.join(POLL_S):
            meanwhile()
            if stoppable and life.stopped:
                self.record.note(f"life {life.number} is stopped")
                return True
            if deadline.passed:
                raise CaseFailedError(f"life {life.number} has not ended after {self.life_timeout_s:g} s")
        self.record.note(f"life {life.number} ended with exit code {life.exit_code}")
        return False

    def run(self) -> DriverLife:
        """A new life that no fault strikes, to its end, whichever it is."""
        self.wait(life := self.begin({}))
        return life

    def until_end(self, restarts: int, *, only_after: Collection[int] | None = None) -> DriverLife:
        """Unless the last life came to the end of its input: lives until one does, `restarts` more than one; the last.

        Like a supervisor, none after an exit code that is not in `only_after`; None: after every one.
        """
        for _ in range(1 + restarts):
            if self.lives[-1].exit_code == 0:
                break
            life = self.run()
            if only_after is not None and life.exit_code not in only_after:
                break
        return self.lives[-1]

    def go_on(self, life: DriverLife, others: Iterable[int]) -> None:
        """Let a stopped life go on, and with it `others`: processes of its tasks that were stopped too."""
        self.record.note(f"life {life.number} may go on")
        send(signal.SIGCONT, {life.pid, *others})

    def end(self) -> None:
        """No life is left."""
        for life in self.stopped:
            life.kill()
