"""Cases whose fault is made by whoever holds the case: while a process waits at the step, or between two lives.

Same record, same checks, same readers as the cases of the matrix (`case_run`); which cases there are is in
`process`, `disk` and `load`.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults import injector
from tpc.chaos.faults.fault import HANG, StepFault
from tpc.chaos.matrix.case import EPOCH, LAST_TASK, Case, CaseFailedError
from tpc.chaos.matrix.case_run import EPOCHS, CaseRun
from tpc.chaos.matrix.pipeline import ROWS_PER_EPOCH, TASK_SINKS
from tpc.chaos.matrix.records import CaseRecord
from tpc.chaos.matrix.sessions import WarmSession
from tpc.chaos.reports.tally import FAILED, SKIPPED
from tpc.chaos.running.signals import send
from tpc.errors import TpcError

if TYPE_CHECKING:
    from tpc.chaos.faults.hits import StepHit
    from tpc.chaos.matrix.bench import MatrixBench
    from tpc.chaos.matrix.lives import DriverLife

LIFE_TIMEOUT_S = 300.0
"""Of a life on a JVM that nothing has run in before."""
RESTARTS = 3
"""How often a supervisor's restart may be needed until a server is back or a dead process's work is swept."""
STRUCK_LIFE = 0
"""The life that the fault of a special case strikes; it has no other."""


@dataclass(frozen=True)
class SpecialCase(Case):
    """A case with a run of its own. `what` is its fault in the words of the record."""

    what: str = ""
    runs_as: ClassVar[type[SpecialRun]]

    def run(self, bench: MatrixBench, seed: int) -> CaseRecord:
        """See `Case.run`."""
        return self.runs_as(bench, self, seed).run()


def held_at(
    step: str,
    sink: str | None = None,
    *,
    kind: str = HANG,
    epoch: int = EPOCH,
    record: str | None = None,
) -> StepFault:
    """A fault whose process waits at the step until whoever holds the case has acted.

    At a step of a task it is the last task's, after the other one has prepared its branches.
    """
    of_task = step.startswith("pass.") and sink in TASK_SINKS
    return StepFault(
        step,
        kind,
        epoch,
        sink,
        partition=LAST_TASK if of_task else None,
        record=record,
        waits_for_branches=len(TASK_SINKS) if of_task else 0,
        held=True,
    )


def ran_again(hits: Iterable[StepHit], fault: StepFault) -> Check:
    """Whether the task that the fault hit was run more than once in the struck life, the first."""
    place = (STRUCK_LIFE, fault.epoch, fault.partition)
    of_task = (h for h in hits if h.step == "pass.open" and (h.life, h.where["epoch"], h.where["partition"]) == place)
    times = max(Counter(h.where["sink"] for h in of_task).values(), default=0)
    return Check("the task ran again", times > 1, f"its branches were opened {times} times")


class SpecialRun(CaseRun):
    """A case that is skipped where it cannot be tried, and restarts its driver as often as a supervisor would."""

    restarts = 0

    def __init__(self, bench: MatrixBench, case: SpecialCase, seed: int) -> None:
        super().__init__(bench, case, seed)
        self.what = case.what
        self.record.fault = case.what
        self.exits = ExitStack()
        """What must be ended or put right again after the case, whatever happened in it."""

    def why_not(self) -> str | None:
        """Why the case cannot be tried on this machine; None when it can."""
        return None

    def run(self) -> CaseRecord:
        """See `CaseRun.run`."""
        if reason := self.why_not():
            self.record.outcome, self.record.reason = SKIPPED, reason
            return self.record
        return super().run()

    def _recover(self) -> None:
        """Lives until one comes to its end."""
        if (last := self.drivers.until_end(self.restarts)).exit_code != 0:
            raise CaseFailedError(f"life {last.number} ended with exit code {last.exit_code}")

    def _prepare(self) -> None:
        self.bench.servers.make(self.pipeline)
        self._feed()

    def _feed(self) -> None:
        """Everything that the pipeline will read."""
        self.bench.servers.feed(self.pipeline, self.feed.rows(EPOCHS * ROWS_PER_EPOCH))

    @property
    def _last(self) -> DriverLife:
        return self.drivers.lives[-1]

    def _tell(self) -> None:
        super()._tell()
        for fault in self.record.fired:
            fault["fault"] = self.what

    def _end(self) -> None:
        try:
            super()._end()
        finally:  # also when it is interrupted: nobody else would unmount a disk or end a cluster
            try:
                self.exits.close()
            except (TpcError, OSError) as error:
                self.record.outcome, self.record.reason = FAILED, f"the case could not be cleared away: {error}"


class HeldRun(SpecialRun):
    """A case whose fault is made elsewhere, while the process that has reached the step is held there."""

    def _arm(self) -> None:
        """Make the fault when a process waits for it, then let the process go."""
        for number, _, claim in injector.waiting(self.directory, self.case.faults):
            self._make(claim)
            injector.record_made(self.directory, number, time.time())
            self.record.note(self.what)
            injector.armed_file(self.directory, number).touch()

    def _make(self, claim: dict[str, Any]) -> None:
        """Make the fault. `claim` is what the held process recorded: its step, epoch, sink, partition and pid."""
        raise NotImplementedError


class OwnSessionRun(HeldRun):
    """The first life has a JVM of its own, which ends with the case."""

    settings: Mapping[str, str] = {}

    def __init__(self, bench: MatrixBench, case: SpecialCase, seed: int) -> None:
        super().__init__(bench, case, seed)
        self.record.processes = "own processes"
        self.drivers.life_timeout_s = LIFE_TIMEOUT_S

    def _prepare(self) -> None:
        self.session = WarmSession(self.directory / "session", self.settings)
        self.exits.callback(self.session.close)
        super()._prepare()
        self.drivers.sessions = [self.session]

    def _recover(self) -> None:
        self.drivers.sessions = self.bench.sessions
        super()._recover()

    def _signal(self, number: signal.Signals) -> None:
        """To every process of the first life, the driver first."""
        send(number, [self.drivers.lives[0].pid, *(process.pid for process in self.session.family())])
