"""The cases of a service: the cells of its table, and pairs of faults, by the same machinery as those of a query."""

from __future__ import annotations

from tpc.chaos.faults.fault import ERROR, KILL, StepFault
from tpc.chaos.matrix.case import EPOCH, Case
from tpc.chaos.matrix.cases.cell_cases import CellCase, lost_reply, named, setup_for
from tpc.chaos.matrix.cases.service_cells import SERVICE_TABLE, counts
from tpc.chaos.matrix.cases.tables import Cell
from tpc.chaos.matrix.pipeline import SERVICE

SUITE, PAIRS = "service", "service-pairs"


def case_of(cell: Cell) -> Case:
    """The case that tries a cell."""
    lost = lost_reply(cell.step, cell.fault, cell.sink)
    fault = StepFault(cell.step, cell.fault, EPOCH, cell.sink, record=cell.record, lost=lost)
    name = "/".join([SERVICE, cell.step, cell.fault, *([place] if (place := cell.sink or cell.record) else [])])
    return CellCase(name, SUITE, fault, setup_for(cell), core=cell.core, counts=counts(cell), pipeline=SERVICE)


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
