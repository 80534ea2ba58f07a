"""The cases: a cell of the table as faults in the lives of one pipeline, and pairs of faults.

The fault strikes in epoch 1 of three. A fault in a recovery needs something to recover from: then the life before is
killed first, with every branch prepared (`setup`). The second fault of a pair strikes the life after the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.chaos.faults.fault import ERROR, KILL, KILL_DRIVER, REPLY_LOST, LostReply, StepFault
from tpc.chaos.matrix.case import EPOCH, LAST_TASK, Case
from tpc.chaos.matrix.case_run import CaseRun
from tpc.chaos.matrix.cases.cells import UNCOUNTED, cells
from tpc.chaos.matrix.cases.tables import Cell
from tpc.chaos.matrix.pipeline import TASK_SINKS

if TYPE_CHECKING:
    from tpc.chaos.matrix.bench import MatrixBench
    from tpc.chaos.matrix.records import CaseRecord

_UNDECIDED = StepFault("epoch.prepared", KILL, EPOCH)
_DECIDED = StepFault("epoch.decided", KILL, EPOCH)
_SETUPS: Mapping[str, StepFault] = {
    "recovery.claim": _UNDECIDED,
    "recovery.claimed": _DECIDED,
    "recovery.owned": _DECIDED,
    "recovery.sweep": _UNDECIDED,
    "recovery.swept": _UNDECIDED,
    "recovery.reconcile": _UNDECIDED,
    "recovery.reconciled": _DECIDED,
}

_COMMIT = "^commit {pipeline}.*~%s~"
_LOST: Mapping[tuple[str, str], LostReply] = {
    ("pass.flushed", "kafka"): LostReply("kafka", "TxnOffsetCommit", "{pipeline}.*~kafka~"),
    ("pass.flushed", "offsets"): LostReply("kafka", "TxnOffsetCommit", "{pipeline}.*~offsets~"),
    ("pass.flushed", "rows"): LostReply("postgres", "PREPARE TRANSACTION", "{pipeline}.*~rows~"),
    ("pass.flushed", "tallies"): LostReply("postgres", "PREPARE TRANSACTION", "{pipeline}.*~tallies~"),
    ("pass.flushed", "airports"): LostReply("mongo", "insert", "tpc_outbox$"),
    ("pass.flushed", "totals-changelog"): LostReply("kafka", "TxnOffsetCommit", "{pipeline}.*~totals-changelog~"),
    ("sink.commit", "totals-changelog"): LostReply("kafka", "EndTxn", _COMMIT % "totals-changelog"),
    ("sink.commit", "kafka"): LostReply("kafka", "EndTxn", _COMMIT % "kafka"),
    ("sink.commit", "offsets"): LostReply("kafka", "EndTxn", _COMMIT % "offsets"),
    ("sink.commit", "rows"): LostReply("postgres", "COMMIT PREPARED", "{pipeline}.*~rows~"),
    ("sink.commit", "tallies"): LostReply("postgres", "COMMIT PREPARED", "{pipeline}.*~tallies~"),
    ("sink.commit", "airports"): LostReply("mongo", "update", "airports$"),
}


@dataclass(frozen=True)
class CellCase(Case):
    """A case of a cell, or a pair: its processes make their faults themselves."""

    def run(self, bench: MatrixBench, seed: int) -> CaseRecord:
        """See `Case.run`."""
        return CaseRun(bench, self, seed).run()


def fault_at(
    step: str, kind: str, sink: str | None = None, record: str | None = None, *, seconds: float = 1.0
) -> StepFault:
    """The fault in epoch 1."""
    of_task = step.startswith("pass.") and sink in TASK_SINKS
    lost = lost_reply(step, kind, sink)
    return StepFault(
        step,
        kind,
        EPOCH,
        sink,
        partition=LAST_TASK if of_task else None,
        record=record,
        seconds=seconds,
        waits_for_branches=len(TASK_SINKS) if of_task else 0,
        lost=lost,
    )


def lost_reply(step: str, kind: str, sink: str | None) -> LostReply | None:
    """The request whose reply a proxy loses at a sink's step; None where the step says it itself."""
    return _LOST.get((step, sink or "")) if kind == REPLY_LOST else None


def setup_for(cell: Cell) -> StepFault | None:
    """What ends the life before, where there must be something to recover from."""
    return _DECIDED if cell.record == "generation" else _SETUPS.get(cell.step)


def case_of(cell: Cell) -> Case:
    """The case that tries a cell."""
    parts = [cell.step, cell.fault, *([place] if (place := cell.sink or cell.record) else [])]
    return CellCase(
        "/".join(parts),
        "matrix",
        fault_at(cell.step, cell.fault, cell.sink, cell.record),
        setup=setup_for(cell),
        core=cell.core,
        counts=cell.step not in UNCOUNTED and cell.record != "complete",
    )


_FIRST_UNDECIDED = (
    fault_at("pass.flushed", KILL_DRIVER, "kafka"),
    fault_at("pass.prepared", KILL_DRIVER, "rows"),
    fault_at("pass.prepared", KILL, "airports"),
    fault_at("epoch.collected", KILL),
    fault_at("epoch.prepared", KILL),
    fault_at("log.fsync", KILL, record="intent"),
)
"""The driver itself must die: one that lives undoes its own epoch, and leaves nothing to recover from."""
_SECOND_UNDECIDED = (
    fault_at("recovery.claim", KILL),
    fault_at("recovery.claimed", KILL),
    fault_at("log.fsync", ERROR, record="generation"),
    fault_at("log.linked", KILL, record="generation"),
    fault_at("recovery.owned", ERROR),
    fault_at("recovery.owned", KILL),
    fault_at("recovery.sweep", KILL),
    fault_at("recovery.sweep", ERROR),
)
_FIRST_DECIDED = (
    fault_at("log.linked", KILL, record="intent"),
    fault_at("epoch.decided", KILL),
    fault_at("sink.commit", KILL, "kafka"),
    fault_at("sink.committed", KILL, "rows"),
    fault_at("sink.commit", KILL, "airports"),
)
_SECOND_DECIDED = (
    fault_at("recovery.claim", KILL),
    fault_at("recovery.claimed", KILL),
    fault_at("log.fsync", ERROR, record="generation"),
    fault_at("log.linked", KILL, record="generation"),
    fault_at("recovery.owned", KILL),
    fault_at("sink.commit", KILL, "rows"),
    fault_at("sink.committed", KILL, "airports"),
)


def pairs() -> list[Case]:
    """A fault that ends the driver in the epoch, and another one in the recovery from it."""
    return [
        CellCase(f"{named(first)} + {named(second)}", "pairs", first, second=second)
        for firsts, seconds in ((_FIRST_UNDECIDED, _SECOND_UNDECIDED), (_FIRST_DECIDED, _SECOND_DECIDED))
        for first in firsts
        for second in seconds
    ]


def named(fault: StepFault) -> str:
    """A fault in the name of a pair."""
    place = fault.sink or fault.record
    return "/".join([fault.step, fault.kind, *([place] if place else [])])


def matrix() -> list[Case]:
    """Every cell's case."""
    return [case_of(cell) for cell in cells()]
