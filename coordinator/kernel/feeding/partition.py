"""One partition of an epoch: its rows go to every sink's branch; all branches are prepared, or all undone.

A runtime runs it as a task on any machine, or in its own process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.feeding.branch import BranchFeed, BranchReport, SinkTask
from tpc.coordinator.kernel.feeding.refused_rows import LetterWork, RefusedRows
from tpc.errors import DataError, TpcError
from tpc.handles import Handle, PipelineId
from tpc.sink import describe_row
from tpc.support.arrow_rows import value_at

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class EpochWork:
    """What every partition of an epoch does; picklable."""

    pipeline: PipelineId
    generation: int
    epoch: int
    sinks: tuple[SinkTask, ...]
    digests_by_writing: tuple[tuple[str, ...], ...]
    """See `EpochPass`."""
    unrouted_is_error: bool
    letters: LetterWork | None = None
    """Where there are dead letters: how refused rows become rows of their sink."""


@dataclass(frozen=True)
class PartitionReport:
    """What one partition came to, every branch prepared."""

    partition: int
    rows: int
    unrouted: int
    branches: Mapping[str, BranchReport]
    gathered: Mapping[str, bytes]
    """Per gathered sink, its reduced rows as Arrow IPC."""
    refused: tuple[str, ...] = ()
    """The first refusals of rows that have become dead letters, in words."""


class PartitionFeed:
    """One attempt at one partition."""

    def __init__(self, work: EpochWork, partition: int, attempt: int) -> None:
        self.work = work
        self.partition = partition
        self._rows = 0
        self._unrouted = 0
        self._branches = [
            BranchFeed(task, Handle(work.pipeline, work.generation, task.sink.name, work.epoch, partition, attempt))
            for task in work.sinks
        ]
        self._fed = self._branches
        self._letters: BranchFeed | None = None
        self._refused: RefusedRows | None = None
        if work.letters is not None:
            sink = work.letters.route.sink
            [self._letters] = [branch for branch in self._branches if branch.name == sink]
            self._fed = [branch for branch in self._branches if branch.name != sink]
            if work.letters.is_asked:
                self._refused = RefusedRows(work.letters, [(branch.task, branch.handle) for branch in self._fed])

    def run(self, batches: Iterable[pyarrow.RecordBatch]) -> PartitionReport:
        """Feed and prepare every branch. Raises what a sink raises; every branch is undone then.

        Errors of this library name the pipeline and the epoch.
        """
        try:
            for batch in batches:
                self._feed(batch)
            for branch in self._branches:
                branch.prepare()
            return self._report()
        except TpcError as error:
            self._abort()
            error.located(pipeline=str(self.work.pipeline), epoch=self.work.epoch)
            raise
        except BaseException:
            self._abort()
            raise
        finally:
            if self._refused is not None:
                self._refused.close()

    def _feed(self, batch: pyarrow.RecordBatch) -> None:
        self._rows += batch.num_rows
        taken = any_valid(batch, [name for names in self.work.digests_by_writing for name in names])
        missing = batch.num_rows - taken
        self._unrouted += missing
        if missing and self.work.unrouted_is_error:
            raise DataError(f"no sink takes the row {_first_unrouted(batch, self.work)}", sink=None)
        if self._refused is not None and self._letters is not None:
            batch, letters = self._refused.taken_out(batch)
            if letters is not None:
                self._letters.feed(letters)
        for branch in self._fed:
            branch.feed(batch)

    def _report(self) -> PartitionReport:
        branches = {branch.name: branch.report for branch in self._branches}
        gathered = {branch.name: rows for branch in self._branches if (rows := branch.gathered()) is not None}
        refused = () if self._refused is None else tuple(self._refused.told)
        return PartitionReport(self.partition, self._rows, self._unrouted, branches, gathered, refused)

    def _abort(self) -> None:
        """Undo every branch; one that cannot be undone now is left to the sweep and does not hold up the others."""
        for branch in self._branches:
            branch.undo()


def any_valid(batch: pyarrow.RecordBatch, names: Sequence[str]) -> int:
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


def _first_unrouted(batch: pyarrow.RecordBatch, work: EpochWork) -> str:
    digests = [batch.column(name) for names in work.digests_by_writing for name in names]
    row = next(row for row in range(batch.num_rows) if not any(column[row].is_valid for column in digests))
    routes = [route for sink in work.sinks for route in sink.routes if route.digest in batch.schema.names]  # no letters
    names = {wide: out for route in routes for wide, out in route.columns}
    shown = list(names.items())[:6]
    return describe_row({out: value_at(batch, wide, row) for wide, out in shown}, [out for _, out in shown])
