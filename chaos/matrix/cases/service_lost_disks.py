"""The disk of a service's states is lost with its process: the next start makes them again from their changelogs."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults.fault import KILL
from tpc.chaos.faults.injector import wait_until
from tpc.chaos.matrix.case import CaseFailedError
from tpc.chaos.matrix.cases.cell_cases import setup_for
from tpc.chaos.matrix.cases.service_cells import counts
from tpc.chaos.matrix.cases.special import HeldRun, SpecialCase, held_at
from tpc.chaos.matrix.cases.tables import Cell
from tpc.chaos.matrix.pipeline import SERVICE
from tpc.chaos.matrix.service_judging import ServiceReaders
from tpc.chaos.matrix.service_pipeline import STATES, TOTALS, ServicePipeline
from tpc.chaos.running.owned_processes import read_from

SUITE = "service-lost-disks"
LOST = "killed, and the states' disk is lost"
ENDS_WITHIN_S = 10.0
MADE_AGAIN = "the state {} is there again"
"""What a start says of each of them."""
UNSEEN = "a reader of the state's "
PLACES = (
    ("pass.prepare", "totals"),
    ("pass.prepared", "totals-changelog"),
    ("epoch.prepared", None),
    ("epoch.decided", None),
    ("sink.commit", "totals"),
    ("sink.commit", "totals-changelog"),
    ("state.applied", "recent"),
    ("sink.committed", "totals-changelog"),
    ("sink.committed", "ledger"),
    ("epoch.committed", None),
    ("epoch.completed", None),
    ("state.compacted", "recent"),
    ("recovery.claimed", None),
    ("recovery.sweep", None),
    ("recovery.reconciled", None),
)


class LostDiskRun(HeldRun):
    """One start on an empty disk must come to the end by itself.

    A reader of the store would see it grow from nothing while it is made again: nobody reads it before the end.
    """

    pipeline: ServicePipeline

    def _watching(self) -> AbstractContextManager[None]:
        self.readers = ServiceReaders(self.pipeline)
        del self.readers.followed["totals"]
        return self.readers.watching()

    def _make(self, claim: dict[str, Any]) -> None:
        os.kill(int(claim["pid"]), signal.SIGKILL)
        if not wait_until(lambda: self._last.exit_code is not None, ENDS_WITHIN_S):
            raise CaseFailedError("the killed process has not ended")
        shutil.rmtree(self.pipeline.store(TOTALS).parent)

    def _recover(self) -> None:
        super()._recover()
        said = read_from(self.drivers.log, 0)
        if lost := [name for name in STATES if MADE_AGAIN.format(name) not in said]:
            raise CaseFailedError(f"the start did not make {lost} again")

    def _judge(self) -> list[Check]:
        return [check for check in super()._judge() if not check.name.startswith(UNSEEN)]


@dataclass(frozen=True)
class LostDiskCase(SpecialCase):
    """All that one machine has of the states is gone at a step."""

    runs_as = LostDiskRun


def cases() -> list[LostDiskCase]:
    """At every kind of step from the first branch of a state on."""
    return [
        LostDiskCase(
            "/".join([SERVICE, step, LOST, *([sink] if sink else [])]),
            SUITE,
            held_at(step, sink, kind=KILL),
            setup=setup_for(Cell(step, KILL, sink)),
            counts=counts(Cell(step, KILL, sink)),
            pipeline=SERVICE,
            what=LOST,
        )
        for step, sink in PLACES
    ]
