"""Cases of a service beyond its table: its disks fail, and a standby takes over from a process that ends."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, replace
from typing import Any

from tpc.chaos.faults import small_disk
from tpc.chaos.faults.fault import HANG, KILL, ZOMBIE, StepFault
from tpc.chaos.faults.injector import wait_until
from tpc.chaos.faults.small_disk import SmallDisk
from tpc.chaos.matrix.case import EPOCH, CaseFailedError
from tpc.chaos.matrix.cases.disk import LOG_DISK_SIZE, fsync_cases, log_disk_cases
from tpc.chaos.matrix.cases.service_cells import counts
from tpc.chaos.matrix.cases.special import RESTARTS, HeldRun, SpecialCase, held_at
from tpc.chaos.matrix.cases.tables import Cell
from tpc.chaos.matrix.pipeline import SERVICE
from tpc.chaos.matrix.service_pipeline import TOTALS, ServicePipeline
from tpc.chaos.runner.ends import ENDED_BY_ERROR
from tpc.chaos.running.owned_processes import read_from

DISKS, STANDBY = "service-disks", "service-standby"
STANDS_BY = "this one stands by"
"""What a process says that waits for the current leader."""
STANDS_BY_WITHIN_S = 30.0


def disk_cases() -> list[SpecialCase]:
    """Those of a query that are about the log alone, and those of the states' disk."""
    of_log = (*log_disk_cases(), *fsync_cases())
    renamed = [replace(case, name=f"{SERVICE}/{case.name}", suite=DISKS, pipeline=SERVICE) for case in of_log]
    return [*renamed, *cases()]


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


@dataclass(frozen=True)
class StandbyCase(SpecialCase):
    """The current leader is killed or stopped while another one waits."""

    runs_as = StandbyRun


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


# The disk of a service's states is full at a step: its stores take nothing until somebody makes room.

SUITE = "service-disks"
FULL = "the states' disk is full"
FULL_S = 3.0
"""How long it stays full for a process that waits until there is room."""
REFUSED = "database or disk is full"
"""What SQLite says."""
PLACES = (
    ("pass.prepare", "totals"),
    ("epoch.prepared", None),
    ("epoch.decided", None),
    ("sink.commit", "recent"),
    ("state.applied", "totals"),
)


class StoreDiskRun(HeldRun):
    """A process that ends of it is followed by one that finds no new room either; then there is room again."""

    pipeline: ServicePipeline
    restarts = RESTARTS

    def why_not(self) -> str | None:
        """See `SpecialRun.why_not`."""
        reason = small_disk.why_not()
        return f"a tmpfs cannot be mounted here: {reason}" if reason else None

    def _prepare(self) -> None:
        self.disk = SmallDisk(self.pipeline.store(TOTALS).parent, LOG_DISK_SIZE)
        self.exits.callback(self.disk.unmount)
        self.mending = threading.Timer(FULL_S, self._mend)
        self.exits.callback(self.mending.cancel)
        super()._prepare()

    def _make(self, claim: dict[str, Any]) -> None:
        self.disk.fill()
        self.mending.start()

    def _mend(self) -> None:
        self.disk.empty()
        self.record.note("there is room again")

    def _recover(self) -> None:
        if self._last.exit_code != 0 and not self.mending.finished.is_set():
            self.mending.cancel()
            self.disk.fill()  # also what the process has let go of
            self.drivers.run()
            codes = [life.exit_code for life in self.drivers.lives]
            if codes not in ([ENDED_BY_ERROR, ENDED_BY_ERROR], [ENDED_BY_ERROR, 0]):
                raise CaseFailedError(f"the processes ended with exit codes {codes} while there was no room")
            if codes[-1] == 0:
                self.record.note("the second process had room enough: it rewrites a store's log in place")
            else:
                self.hopeless_lives = 1
            self._mend()
        if REFUSED not in read_from(self.drivers.log, 0):
            raise CaseFailedError("no store was refused anything")
        super()._recover()


@dataclass(frozen=True)
class StoreDiskCase(SpecialCase):
    """The states lie on a small disk of their own."""

    runs_as = StoreDiskRun


def cases() -> list[StoreDiskCase]:
    """Before the decision, where the epoch is taken back, and after it, where it must be applied."""
    return [
        StoreDiskCase(
            "/".join([SERVICE, step, FULL, *([sink] if sink else [])]),
            SUITE,
            StepFault(step, HANG, EPOCH, sink, held=True),
            counts=counts(Cell(step, KILL, sink)),
            pipeline=SERVICE,
            what=FULL,
        )
        for step, sink in PLACES
    ]
