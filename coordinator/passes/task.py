"""What one Spark task does in the pass: feeds its rows to every sink's writer, prepares every branch, reports.

Runs on executors, inside `mapInArrow`. A task that fails after a prepare undoes its own branches before it
raises; it never touches another attempt's. Errors of this library travel back in the report instead of failing
the task, since Spark would run a task again that can only fail again.
"""

from __future__ import annotations

import base64
import logging
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from tpc import failpoints
from tpc.coordinator.passes.gather import KeyedRows, refuse_too_many, serialize
from tpc.coordinator.passes.plan import RoutePlan
from tpc.coordinator.passes.worker_process import spare_repetitions
from tpc.errors import DataError, TpcError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject, canonical
from tpc.sink import Committable, Sink, Writer, describe_row

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger(__name__)

REPORT_SCHEMA = "sink string, payload binary"
"""One row per task with an empty sink name, its payload the report as JSON; one per gathered sink, Arrow IPC."""

_DIGEST_MODULUS = 2**64


class Mode(str, Enum):
    """What a task does with a sink's rows."""

    WRITE = "write"
    """Write and prepare a branch."""
    GATHER = "gather"
    """Reduce by key; the driver writes."""
    DIGEST = "digest"
    """Only add up the digest: the epoch is decided."""


@dataclass(frozen=True)
class SinkTask:
    """One sink's part of a pass.

    `only_digests` limits writing to branches that are being repaired: those whose rows have one of these digests. Not
    their partitions' numbers, since Spark may number the partitions of a replay otherwise (its Kafka source does:
    measured with two partitions on Spark 4.0). What a task holds back until its digest is known stays in memory.
    """

    sink: Sink
    routes: tuple[RoutePlan, ...]
    mode: Mode
    hint: JSONObject
    only_digests: frozenset[str] | None = None


@dataclass(frozen=True)
class PassTask:
    """All that a task needs to know; pickled with the job."""

    pipeline: PipelineId
    generation: int
    epoch: int
    sinks: tuple[SinkTask, ...]
    digests_by_writing: tuple[tuple[str, ...], ...]
    unrouted_is_error: bool
    actions: Mapping[str, failpoints.Action] = field(default_factory=dict)

    def run(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """The function for `mapInArrow`."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        run = _TaskRun(self, context.partitionId(), context.taskAttemptId(), context.attemptNumber())
        yield run.run(batches)
        spare_repetitions()


@dataclass
class SinkReport:
    """What one task did for one sink."""

    rows: int = 0
    digest: int = 0
    committable: Committable | None = None
    write_seconds: float = 0.0
    flush_seconds: float = 0.0
    prepare_seconds: float = 0.0


class _TaskRun:
    def __init__(self, task: PassTask, partition: int, attempt: int, attempt_number: int) -> None:
        failpoints.install(task.actions)
        self.task = task
        self.partition = partition
        self.attempt = attempt
        self.attempt_number = attempt_number
        self.rows = 0
        self.unrouted = 0
        self.started = time.perf_counter()
        self.branches = [_Branch(task, sink_task, partition, attempt) for sink_task in task.sinks]

    def run(self, batches: Iterable[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
        try:
            self._write(batches)
            written = time.perf_counter()
            for branch in self.branches:
                branch.prepare()
            return self._report(written - self.started)
        except TpcError as error:
            self._abort()
            return self._failure(error.located(pipeline=str(self.task.pipeline), epoch=self.task.epoch))
        except BaseException:
            self._abort()
            raise

    def _write(self, batches: Iterable[pyarrow.RecordBatch]) -> None:
        for batch in batches:
            self.rows += batch.num_rows
            for branch in self.branches:
                branch.feed(batch)
            self._count_unrouted(batch)

    def _count_unrouted(self, batch: pyarrow.RecordBatch) -> None:
        taken = _any_valid(batch, [name for names in self.task.digests_by_writing for name in names])
        missing = batch.num_rows - taken
        self.unrouted += missing
        if missing and self.task.unrouted_is_error:
            raise DataError(f"no sink takes the row {_first_unrouted(batch, self.task)}", sink=None)

    def _abort(self) -> None:
        """Undo every branch; one that cannot be undone now is left to the sweep and does not hold up the others."""
        for branch in self.branches:
            try:
                branch.abort()
            except TpcError:
                logger.exception("%s is not undone by its task; the sweep does it", branch.handle)

    def _report(self, pass_seconds: float) -> pyarrow.RecordBatch:
        report = self._head() | {
            "rows": self.rows,
            "unrouted": self.unrouted,
            "seconds": pass_seconds,
            "sinks": {branch.name: branch.to_json() for branch in self.branches},
        }
        gathered = {branch.name: part for branch in self.branches if (part := branch.gathered()) is not None}
        return _as_batch(report, gathered)

    def _failure(self, error: TpcError) -> pyarrow.RecordBatch:
        return _as_batch(self._head() | {"error": base64.b64encode(pickle.dumps(error)).decode()}, {})

    def _head(self) -> dict[str, Any]:
        return {"partition": self.partition, "attempt": self.attempt, "attempt_number": self.attempt_number}


class _Branch:
    """One sink in one task."""

    def __init__(self, task: PassTask, sink_task: SinkTask, partition: int, attempt: int) -> None:
        self.name = sink_task.sink.name
        self.sink_task = sink_task
        self.handle = Handle(task.pipeline, task.generation, self.name, task.epoch, partition, attempt)
        self.report = SinkReport()
        self.writer: Writer | None = None
        self.keyed: KeyedRows | None = None
        self.writes = sink_task.mode is Mode.WRITE
        self.held: list[pyarrow.RecordBatch] = []
        if sink_task.sink.merge is not None and (self.writes or sink_task.mode is Mode.GATHER):
            self.keyed = KeyedRows(sink_task.sink.merge, self.name)

    def feed(self, batch: pyarrow.RecordBatch) -> None:
        """Take the rows of `batch` that are routed to this sink."""
        started = time.perf_counter()
        for route in self.sink_task.routes:
            digests = batch.column(route.digest)
            taken = len(digests) - digests.null_count
            if not taken:
                continue
            self.report.rows += taken
            self.report.digest = (self.report.digest + _sum(digests)) % _DIGEST_MODULUS
            if self.keyed is not None:
                self.keyed.add(_routed(batch, route))
            elif self.writes and self.sink_task.only_digests is None:
                self._write(_routed(batch, route))
            elif self.writes:
                self.held.append(_routed(batch, route))
        self.report.write_seconds += time.perf_counter() - started

    def _write(self, rows: pyarrow.RecordBatch) -> None:
        if self.writer is None:
            failpoints.hit_branch("pass.open", self.handle)
            self.writer = self.sink_task.sink.writer(self.handle, rows.schema, self.sink_task.hint)
            failpoints.hit_branch("pass.write", self.handle)
        self.writer.write(rows)

    def prepare(self) -> None:
        """Prepare the branch, if it has rows."""
        started = time.perf_counter()
        if self._is_wanted():
            for rows in self._unwritten():
                self._write(rows)
        if self.writer is not None:
            failpoints.hit_branch("pass.prepare", self.handle)
            self.report.committable = self.writer.prepare()
            failpoints.hit_branch("pass.prepared", self.handle)
            self.report.flush_seconds = self.writer.flush_seconds
        self.report.prepare_seconds = time.perf_counter() - started - self.report.flush_seconds

    def _is_wanted(self) -> bool:
        """Whether this branch is to be written: all are, but in a repair, whose rows tell it only now."""
        only = self.sink_task.only_digests
        return self.writes and (only is None or f"{self.report.digest:016x}" in only)

    def _unwritten(self) -> list[pyarrow.RecordBatch]:
        """What could not go to the writer as it came."""
        table = None if self.keyed is None else self.keyed.reduced()
        return self.held if table is None else table.combine_chunks().to_batches()

    def abort(self) -> None:
        """Undo the branch, prepared or not."""
        if self.writer is not None:
            self.writer.abort()

    def gathered(self) -> bytes | None:
        """The reduced rows for the driver."""
        if self.keyed is None or self.sink_task.mode is not Mode.GATHER:
            return None
        table = self.keyed.reduced()
        if table is None:
            return None
        refuse_too_many(table.num_rows, self.name, self.keyed.plan)
        return serialize(table)

    def to_json(self) -> JSONObject:
        """The sink's part of the report."""
        committable = self.report.committable
        return {
            "rows": self.report.rows,
            "digest": f"{self.report.digest:016x}",
            "committable": None if committable is None else committable.to_json(),
            "write_seconds": self.report.write_seconds,
            "flush_seconds": self.report.flush_seconds,
            "prepare_seconds": self.report.prepare_seconds,
        }


def _routed(batch: pyarrow.RecordBatch, route: RoutePlan) -> pyarrow.RecordBatch:
    """The rows and columns of `batch` that go this way, under the sink's names."""
    import pyarrow as pa

    digests = batch.column(route.digest)
    columns = [batch.column(wide) for wide, _ in route.columns]
    rows = pa.RecordBatch.from_arrays(columns, names=[output for _, output in route.columns])
    return rows if digests.null_count == 0 else rows.filter(digests.is_valid())


def _sum(digests: pyarrow.Array) -> int:
    """The sum of the hashes mod 2^64; NULLs are rows of others."""
    import numpy as np

    values = digests.drop_null().to_numpy(zero_copy_only=False)
    return int(values.view(np.uint64).sum(dtype=np.uint64))


def _any_valid(batch: pyarrow.RecordBatch, names: Sequence[str]) -> int:
    """How many rows have at least one of the digests."""
    import pyarrow.compute as pc

    taken = None
    for name in names:
        column = batch.column(name)
        if column.null_count == 0:
            return int(batch.num_rows)
        valid = column.is_valid()
        taken = valid if taken is None else pc.or_(taken, valid)
    return int(pc.sum(taken).as_py() or 0)


def _first_unrouted(batch: pyarrow.RecordBatch, task: PassTask) -> str:
    for row in batch.to_pylist():
        if all(row[name] is None for names in task.digests_by_writing for name in names):
            names = {wide: out for sink in task.sinks for route in sink.routes for wide, out in route.columns}
            return describe_row({out: row[wide] for wide, out in names.items()}, list(names.values())[:6])
    return "?"


def _as_batch(report: JSONObject, gathered: Mapping[str, bytes]) -> pyarrow.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(
        [
            pa.array(["", *gathered], pa.string()),
            pa.array([canonical(report), *gathered.values()], pa.binary()),
        ],
        names=["sink", "payload"],
    )
