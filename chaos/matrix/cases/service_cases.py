"""The cases of a service: the cells of its table, and pairs of faults, by the same machinery as those of a query."""

from __future__ import annotations

from tpc.chaos.faults.fault import StepFault
from tpc.chaos.matrix.case import EPOCH, Case
from tpc.chaos.matrix.cases.cell_cases import CellCase, lost_reply, setup_for
from tpc.chaos.matrix.cases.service_cells import SERVICE_TABLE, counts
from tpc.chaos.matrix.cases.tables import Cell
from tpc.chaos.matrix.pipeline import SERVICE

SUITE = "service"


def case_of(cell: Cell) -> Case:
    """The case that tries a cell."""
    lost = lost_reply(cell.step, cell.fault, cell.sink)
    fault = StepFault(cell.step, cell.fault, EPOCH, cell.sink, record=cell.record, lost=lost)
    name = "/".join([SERVICE, cell.step, cell.fault, *([place] if (place := cell.sink or cell.record) else [])])
    return CellCase(name, SUITE, fault, setup_for(cell), core=cell.core, counts=counts(cell), pipeline=SERVICE)


def matrix() -> list[Case]:
    """Every cell's case."""
    return [case_of(cell) for cell in SERVICE_TABLE.cells()]
