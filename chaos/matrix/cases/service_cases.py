"""The cases of a service: the cells of its table, and pairs of faults, by the same machinery as those of a query."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.chaos.faults.fault import ERROR, KILL, ZOMBIE, StepFault
from tpc.chaos.matrix.case import EPOCH, Case
from tpc.chaos.matrix.case_run import CaseRun
from tpc.chaos.matrix.cases.cell_cases import CellCase, lost_reply, named, setup_for
from tpc.chaos.matrix.cases.service_cells import SERVICE_TABLE, counts
from tpc.chaos.matrix.cases.tables import Cell
from tpc.chaos.matrix.judging import history_of
from tpc.chaos.matrix.pipeline import FIRINGS, ROWS_PER_EPOCH, SERVICE
from tpc.chaos.matrix.service_pipeline import OF_FIRINGS

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import MatrixBench
    from tpc.chaos.matrix.records import CaseRecord

SUITE, PAIRS, OF_FIRINGS_ALONE = "service", "service-pairs", "service-firings"


def case_of(cell: Cell, pipeline: str = SERVICE) -> Case:
    """The case that tries a cell."""
    lost = lost_reply(cell.step, cell.fault, cell.sink)
    fault = StepFault(cell.step, cell.fault, EPOCH, cell.sink, record=cell.record, lost=lost)
    name = "/".join([pipeline, cell.step, cell.fault, *([place] if (place := cell.sink or cell.record) else [])])
    return CellCase(name, SUITE, fault, setup_for(cell), core=cell.core, counts=counts(cell), pipeline=pipeline)


def firings() -> list[Case]:
    """Each step at which a process is killed, in an epoch that is made of firings alone; some, at which it is stopped.

    The timer and the rows that wait for it are killed like the states of the table, but for their changelogs: they have
    none. Offsets have no branch where no event was read.
    """
    cells = [cell for cell in SERVICE_TABLE.cells() if cell.sink != "offsets"]
    tried = [cell for cell in cells if cell.fault == KILL or (cell.fault == ZOMBIE and not cell.sink)]
    own = [Cell(step, KILL, sink) for step in _STEPS_OF_STATES for sink in OF_FIRINGS]
    return [_of_firings(case_of(cell, FIRINGS)) for cell in (*tried, *own)]


def _of_firings(case: Case) -> Case:
    fields = {each.name: getattr(case, each.name) for each in dataclasses.fields(case)}
    return FiringCase(**{**fields, "suite": OF_FIRINGS_ALONE, "core": False})


class FiringRun(CaseRun):
    """Where the epoch is decided, rows come in before the last life: its recovery is timed by a new epoch.

    Where it is not, the last life makes it again, of firings alone as before.
    """

    def _recover(self) -> None:
        if EPOCH in history_of(self.pipeline).manifests:
            self.bench.servers.feed(self.pipeline, self.feed.rows(ROWS_PER_EPOCH))
        super()._recover()


@dataclass(frozen=True)
class FiringCase(CellCase):
    """A fault in an epoch without events."""

    def run(self, bench: MatrixBench, seed: int) -> CaseRecord:
        """See `Case.run`."""
        return FiringRun(bench, self, seed).run()


_STEPS_OF_STATES = ("pass.prepared", "sink.commit", "sink.committed", "state.applied", "state.pruned")


def matrix() -> list[Case]:
    """Every cell's case."""
    return [case_of(cell) for cell in SERVICE_TABLE.cells()]


_FIRST_UNDECIDED = (
    StepFault("pass.prepared", KILL, EPOCH, "totals"),
    StepFault("epoch.prepared", KILL, EPOCH),
    StepFault("log.fsync", KILL, EPOCH, record="intent"),
)
_SECOND_UNDECIDED = (
    StepFault("recovery.claim", KILL, EPOCH),
    StepFault("recovery.claimed", KILL, EPOCH),
    StepFault("log.fsync", ERROR, EPOCH, record="generation"),
    StepFault("log.linked", KILL, EPOCH, record="generation"),
    StepFault("recovery.owned", KILL, EPOCH),
    StepFault("recovery.sweep", KILL, EPOCH),
    StepFault("recovery.sweep", ERROR, EPOCH),
)
_FIRST_DECIDED = (
    StepFault("log.linked", KILL, EPOCH, record="intent"),
    StepFault("epoch.decided", KILL, EPOCH),
    StepFault("sink.commit", KILL, EPOCH, "kafka"),
    StepFault("state.applied", KILL, EPOCH, "totals"),
)
_SECOND_DECIDED = (
    StepFault("recovery.claim", KILL, EPOCH),
    StepFault("recovery.claimed", KILL, EPOCH),
    StepFault("log.fsync", ERROR, EPOCH, record="generation"),
    StepFault("recovery.owned", KILL, EPOCH),
    StepFault("sink.commit", KILL, EPOCH, "totals"),
    StepFault("state.applied", KILL, EPOCH, "totals"),
    StepFault("state.applied", ERROR, EPOCH, "totals"),
)
"""The state of the first fault is not applied when the second strikes: it died within the transaction."""


def pairs() -> list[Case]:
    """A fault that ends the process in the epoch, and another one in the recovery from it."""
    return [
        CellCase(f"{SERVICE}/{named(first)} + {named(second)}", PAIRS, first, second=second, pipeline=SERVICE)
        for firsts, seconds in ((_FIRST_UNDECIDED, _SECOND_UNDECIDED), (_FIRST_DECIDED, _SECOND_DECIDED))
        for first in firsts
        for second in seconds
    ]
