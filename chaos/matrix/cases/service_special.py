"""Cases of a service beyond its table: its disks fail, and a standby takes over from a process that ends."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tpc.chaos.faults.fault import KILL, ZOMBIE
from tpc.chaos.faults.injector import wait_until
from tpc.chaos.matrix.case import CaseFailedError
from tpc.chaos.matrix.cases import service_stores
from tpc.chaos.matrix.cases.disk import fsync_cases, log_disk_cases
from tpc.chaos.matrix.cases.special import HeldRun, SpecialCase, held_at
from tpc.chaos.matrix.pipeline import SERVICE
from tpc.chaos.running.owned_processes import read_from

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import MatrixBench
    from tpc.chaos.matrix.records import CaseRecord

DISKS, STANDBY = "service-disks", "service-standby"
STANDS_BY = "this one stands by"
"""What a process says that waits for the one that leads."""
STANDS_BY_WITHIN_S = 30.0


def disk_cases() -> list[SpecialCase]:
    """Those of a query that are about the log alone, and those of the states' disk."""
    of_log = (*log_disk_cases(), *fsync_cases())
    renamed = [replace(case, name=f"{SERVICE}/{case.name}", suite=DISKS, pipeline=SERVICE) for case in of_log]
    return [*renamed, *service_stores.cases()]


@dataclass(frozen=True)
class StandbyCase(SpecialCase):
    """The process that leads is killed or stopped while another one waits."""

    def run(self, bench: MatrixBench, seed: int) -> CaseRecord:
        """See `Case.run`."""
        return StandbyRun(bench, self, seed).run()


class StandbyRun(HeldRun):
    """Nobody is started after the fault: the process that has waited must come to the end."""

    def _make(self, claim: dict[str, Any]) -> None:
        self.standby = self.drivers.begin({}, standby=True)
        if not wait_until(lambda: STANDS_BY in read_from(self.drivers.log, 0), STANDS_BY_WITHIN_S):
            raise CaseFailedError("the second process did not stand by")
        os.kill(int(claim["pid"]), signal.SIGSTOP if self.case.fault.kind == ZOMBIE else signal.SIGKILL)

    def _recover(self) -> None:
        self.drivers.wait(self.standby)
        if self.standby.exit_code != 0:
            raise CaseFailedError(f"the standby, life 1, ended with exit code {self.standby.exit_code}")


_PLACES = (("epoch.prepared", None), ("epoch.decided", None), ("sink.commit", "kafka"), ("state.applied", "totals"))


def standby_cases() -> list[SpecialCase]:
    """Killed at each of the places; stopped where it holds no store."""
    endings = ((KILL, "killed beside a standby", _PLACES), (ZOMBIE, "stopped beside a standby", _PLACES[:3]))
    return [
        StandbyCase(
            "/".join([SERVICE, step, what, *([sink] if sink else [])]),
            STANDBY,
            held_at(step, sink, kind=kind),
            what=what,
            pipeline=SERVICE,
        )
        for kind, what, places in endings
        for step, sink in places
    ]
