"""What a case is: faults in the lives of one pipeline, in the order in which they strike. Which there are: `cases`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.chaos.faults.fault import StepFault
from tpc.chaos.matrix.pipeline import SPARK

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import MatrixBench
    from tpc.chaos.matrix.records import CaseRecord

EPOCH = 1
"""The epoch in which a case's fault strikes, of three, where the case says no other."""
LAST_TASK = 1
"""The task whose steps are hit; the other one has prepared its branches by then."""


class CaseFailedError(Exception):
    """Why a case has failed, in words."""


@dataclass(frozen=True)
class Case:
    """What is done to one pipeline; its subclasses know how. `counts`: a branch must be prepared when a fault strikes.

    `setup` strikes a life before, so that there is something to recover from; `second` the life after.
    """

    name: str
    suite: str
    fault: StepFault
    setup: StepFault | None = None
    second: StepFault | None = None
    core: bool = False
    counts: bool = True
    pipeline: str = SPARK
    """The pipeline it is tried on, a key of `case_run.KINDS`."""

    @property
    def faults(self) -> tuple[StepFault, ...]:
        """The faults in the order of the lives that they strike."""
        return tuple(fault for fault in (self.setup, self.fault, self.second) if fault is not None)

    @property
    def proxied(self) -> bool:
        """Whether its sinks must reach their servers through the proxies."""
        return any(fault.lost is not None for fault in self.faults)

    def run(self, bench: MatrixBench, seed: int) -> CaseRecord:
        """Run it on a test bench. Never raises for what the case does."""
        raise NotImplementedError
