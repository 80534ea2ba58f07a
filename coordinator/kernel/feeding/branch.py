"""One sink in one partition of an epoch: takes the rows that are routed to it, counts and digests them, prepares.

It is fed Arrow batches in which the rows of its routes are marked (`RoutePlan`), by whatever runs the pass.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tpc import failpoints
from tpc.coordinator.kernel.feeding.context import RoutePlan
from tpc.coordinator.kernel.feeding.gather import KeyedRows, refuse_too_many, serialize
from tpc.coordinator.kernel.feeding.row_check import RowCheck
from tpc.coordinator.kernel.feeding.unreadable import refuse_broken_text, write_or_refuse
from tpc.errors import ConfigurationError, TpcError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.merge import REQUIRED
from tpc.sink import Committable, Sink, Writer

if TYPE_CHECKING:
    import pyarrow

logger = logging.getLogger(__name__)

DIGEST_MODULUS = 2**64


class Mode(str, Enum):
    """What is done with a sink's rows."""

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
    their partitions' numbers, since those of a replay may be others (measured with two partitions of a topic). What a
    task holds back until its digest is known stays in memory.
    """

    sink: Sink
    routes: tuple[RoutePlan, ...]
    mode: Mode
    hint: JSONObject
    only_digests: frozenset[str] | None = None
    is_checked: bool = False
    """Whether rows are checked one by one before those of a key are reduced (`row_check`)."""


@dataclass
class BranchReport:
    """What was done for one sink in one partition."""

    rows: int = 0
    digest: int = 0
    committable: Committable | None = None
    write_seconds: float = 0.0
    flush_seconds: float = 0.0
    prepare_seconds: float = 0.0

    def to_json(self) -> JSONObject:
        """The form in which a task reports it."""
        return {
            "rows": self.rows,
            "digest": in_hexadecimal(self.digest),
            "committable": None if self.committable is None else self.committable.to_json(),
            "write_seconds": self.write_seconds,
            "flush_seconds": self.flush_seconds,
            "prepare_seconds": self.prepare_seconds,
        }

    @classmethod
    def from_json(cls, value: JSONObject) -> BranchReport:
        """The inverse of `to_json`."""
        committable = value["committable"]
        return cls(
            rows=value["rows"],
            digest=int(value["digest"], 16),
            committable=None if committable is None else Committable.from_json(committable),
            write_seconds=value["write_seconds"],
            flush_seconds=value["flush_seconds"],
            prepare_seconds=value["prepare_seconds"],
        )


class BranchFeed:
    """Feeds one branch, from its first row to its committable."""

    def __init__(self, task: SinkTask, handle: Handle) -> None:
        self.name = task.sink.name
        self.task = task
        self.handle = handle
        self.report = BranchReport()
        self._writes = task.mode is Mode.WRITE
        self._writer: Writer | None = None
        self._keyed: KeyedRows | None = None
        self._held: list[pyarrow.RecordBatch] = []
        self._check = RowCheck(task.sink, handle, task.hint) if task.is_checked else None
        if task.sink.merge is not None and (self._writes or task.mode is Mode.GATHER):
            self._keyed = KeyedRows(task.sink.merge, self.name, task.hint.get(REQUIRED, ()))

    def feed(self, batch: pyarrow.RecordBatch) -> None:
        """Take the rows of `batch` that are routed to this sink."""
        started = time.perf_counter()
        with self._sink_named():
            for route in self.task.routes:
                digests = batch.column(route.digest)
                taken = len(digests) - digests.null_count
                if not taken:
                    continue
                self.report.rows += taken
                self.report.digest = (self.report.digest + sum_of(digests)) % DIGEST_MODULUS
                if self._keyed is not None or self._writes:
                    self._take(routed(batch, route))
        self.report.write_seconds += time.perf_counter() - started

    @contextmanager
    def _sink_named(self) -> Iterator[None]:
        """An error names the sink, also where a writer leaves it out: by that a runtime knows that a sink refuses."""
        try:
            yield
        except TpcError as error:
            error.located(sink=self.name)
            raise

    def _take(self, rows: pyarrow.RecordBatch) -> None:
        if self._check is None:
            refuse_broken_text(rows, self.task.sink)
        else:
            self._check.require(rows)
        if self._keyed is not None:
            self._keyed.add(rows)
        elif self.task.only_digests is None:
            self._write(rows)
        else:
            self._held.append(rows)

    def _write(self, rows: pyarrow.RecordBatch) -> None:
        if self._writer is None:
            failpoints.hit_branch("pass.open", self.handle)
            self._writer = self.task.sink.writer(self.handle, rows.schema, self.task.hint)
            failpoints.hit_branch("pass.write", self.handle)
        write_or_refuse(self._writer, rows, self.task.sink)

    def prepare(self) -> None:
        """Prepare the branch, if it has rows."""
        started = time.perf_counter()
        with self._sink_named():
            self._prepare()
        self.report.prepare_seconds = time.perf_counter() - started - self.report.flush_seconds

    def _prepare(self) -> None:
        if self._check is not None:
            self._check.close()
        if self._is_wanted():
            for rows in self._unwritten():
                self._write(rows)
        if self._writer is not None:
            failpoints.hit_branch("pass.prepare", self.handle)
            self.report.committable = of_branch(self._writer.prepare(), self.handle)
            failpoints.hit_branch("pass.prepared", self.handle)
            self.report.flush_seconds = self._writer.flush_seconds

    def _is_wanted(self) -> bool:
        """Whether this branch is to be written: all are, but in a repair, whose rows tell it only now."""
        only = self.task.only_digests
        return self._writes and (only is None or in_hexadecimal(self.report.digest) in only)

    def _unwritten(self) -> list[pyarrow.RecordBatch]:
        """What could not go to the writer as it came."""
        table = None if self._keyed is None else self._keyed.reduced()
        return self._held if table is None else table.combine_chunks().to_batches()

    def undo(self) -> None:
        """Undo the branch, prepared or not, because of an error."""
        if self._check is not None:
            self._check.close()
        if self._writer is not None:
            undo(self.handle, self._writer)

    def gathered(self) -> bytes | None:
        """The reduced rows for the driver."""
        if self._keyed is None or self.task.mode is not Mode.GATHER:
            return None
        table = self._keyed.partial()
        if table is None:
            return None
        refuse_too_many(table, self.name, self._keyed.plan)
        return serialize(table)


def of_branch(made: Committable | None, handle: Handle) -> Committable | None:
    """`made` by a sink for the branch `handle`; None if it has nothing to commit.

    Raises `ConfigurationError` if the sink has named another branch. The intent would hold that name: a commit would
    publish the other branch, and the next start would abort this one, since no intent names it.
    """
    if made is not None and made.handle != handle:
        raise ConfigurationError(
            f"the sink was to prepare branch {handle}, and names {made.handle}",
            sink=handle.sink,
            epoch=handle.epoch,
            remedy="the code of the sink is wrong: what prepare returns must have the handle that it was given.",
        )
    return made


def undo(handle: Handle, writer: Writer) -> None:
    """Undo a branch because of an error, which is what is to be raised: one that `abort` raises is told, no more."""
    try:
        writer.abort()
    except Exception:
        logger.exception("%s is not undone by who has written it; the sweep does it", handle)


def routed(batch: pyarrow.RecordBatch, route: RoutePlan) -> pyarrow.RecordBatch:
    """The rows and columns of `batch` that go this way, under the sink's names."""
    import pyarrow as pa

    digests = batch.column(route.digest)
    columns = [batch.column(wide) for wide, _ in route.columns]
    names = [output for _, output in route.columns]
    # The metadata of a state's batch says on which epoch it rests; without it the writer could not check that.
    rows = pa.RecordBatch.from_arrays(columns, names=names, metadata=batch.schema.metadata)
    return rows if digests.null_count == 0 else rows.filter(digests.is_valid())


def sum_of(digests: pyarrow.Array) -> int:
    """The sum of the hashes mod 2^64; NULLs are rows of others."""
    import numpy as np

    values = digests.drop_null().to_numpy(zero_copy_only=False)
    return int(values.view(np.uint64).sum(dtype=np.uint64))


def in_hexadecimal(digest: int) -> str:
    """A digest as it is in manifests."""
    return f"{digest:016x}"
