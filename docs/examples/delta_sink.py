"""A sink for Delta Lake: Parquet files staged beside the table, published with their marker by one commit of its log.

The commit that adds a branch's file names the branch in its metadata, and sets the table's `txn` version of this
pipeline and sink to the epoch; Delta refuses it if another commit has moved that version meanwhile. Local directories.
"""
# ruff: noqa: D102  what the methods promise is in `tpc.sink`

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction
from pyarrow import parquet

from tpc.errors import ConfigurationError, DataError
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Committable, Committer, GivenUp, Limit, Marker, Outcome, Verdict, Writer
from tpc.sinks.authoring import StagedCommitter, StagedSink, StagedWriter, sync

ATTEMPTS = 20
NO_EPOCH = -1
"""The `txn` version of a sink of which something was given up before it has committed anything."""
SPECIAL = ("delta.constraints.", "delta.columnMapping.")
EXPIRE = "Delta cleans its log (delta.logRetentionDuration, 30 days by default), and the branches' names with it."


def columns(table: DeltaTable) -> pyarrow.Schema:
    """The table's columns as Arrow names them."""
    return pyarrow.schema(table.schema().to_arrow())


class DeltaSink(StagedSink):
    """Rows into the unpartitioned Delta table in the directory `path`, which must exist."""

    kind = "delta"
    limits: Mapping[Limit, str] = {Limit.MARKERS_EXPIRE: EXPIRE}
    failures = (DeltaError,)

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: Mapping[str, Any]) -> Writer:
        return DeltaWriter(self, handle, hint)

    def committer(self, pipeline: PipelineId) -> Committer:
        return DeltaCommitter(self, pipeline)


class DeltaWriter(StagedWriter):
    """One Parquet file for a branch, which the table does not know."""

    def begin(self, path: Path, schema: pyarrow.Schema) -> None:
        table = columns(DeltaTable(self.sink.path))
        self.schema = pyarrow.schema([field for field in table if field.name in schema.names])
        self.file = parquet.ParquetWriter(path, self.schema)

    def add(self, batch: pyarrow.RecordBatch) -> None:
        try:
            self.file.write_batch(batch.select(self.schema.names).cast(self.schema))
        except ValueError as error:
            raise DataError(f"the table cannot take a row: {error}", sink=self.sink.name) from None

    def end(self) -> None:
        self.file.close()


class DeltaCommitter(StagedCommitter):
    """Publishes the branches of one sink of one pipeline, and reads their marker."""

    overtaken = (CommitFailedError,)

    def check(self, context: CheckContext) -> None:
        with self.sink.asking("looking at"):
            table = DeltaTable(self.sink.path)
        ours, wanted, told = columns(table), context.schema, table.metadata()
        wrong = {f.name for f in wanted if f.name not in ours.names or ours.field(f.name).type != f.type}
        wrong |= {f"{f.name} NOT NULL" for f in ours if not f.nullable and f.name not in wanted.names}
        wrong |= {key for key in told.configuration if key.startswith(SPECIAL)} | {*told.partition_columns}
        if wrong:
            raise ConfigurationError(f"columns or settings do not fit: {sorted(wrong)}", sink=self.sink.name)

    def identity(self) -> str:
        with self.sink.asking("looking at"):
            return f"delta:{DeltaTable(self.sink.path).metadata().id}"

    def hint(self) -> dict[str, Any]:
        with self.sink.asking("reading the markers of"):
            return {"before": DeltaTable(self.sink.path).transaction_version(self.key)}

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        with self.sink.asking("reading the markers of"):
            table = DeltaTable(self.sink.path)
            newest = table.transaction_version(self.key)
            named = [] if newest is None else [h for h in self._named(table, newest)[0] if h.epoch == newest]
        return Marker(newest, max(named, key=lambda handle: handle.generation)) if named else None

    def publish(self, committables: Sequence[Committable]) -> list[Outcome]:
        """One commit for all that is not committed; what is staged is read first, since commits empty it."""
        staged, table = self.sink.staging.handles(), DeltaTable(self.sink.path)
        outcomes = [self._found(branch, table, staged) for branch in committables]
        adds = [b for b, found in zip(committables, outcomes, strict=True) if found.verdict is Verdict.COMMITTED]
        if adds:
            self._add(table, adds)
        self._make_durable(table.version())
        for branch, outcome in zip(committables, outcomes, strict=True):
            if outcome.settled:
                self.sink.staging.remove(branch.handle)
        return outcomes

    def _add(self, table: DeltaTable, branches: Sequence[Committable]) -> None:
        """One commit with these branches and their marker; fails if another one of this sink came since `table`."""
        newest, files = table.transaction_version(self.key), [self._file(branch) for branch in branches]
        sync(self.sink.path)
        marker = {"key": self.key, "before": newest, "handles": [str(branch.handle) for branch in branches]}
        epochs = [branch.handle.epoch for branch in branches] + [NO_EPOCH if newest is None else newest]
        properties = CommitProperties({"tpc": json.dumps(marker)}, 15, [Transaction(self.key, max(epochs))])
        table.create_write_transaction(files, "append", table.schema(), commit_properties=properties)

    def _make_durable(self, looked_at: int) -> None:
        """deltalake syncs nothing: the commits since, and some before, whose makers may have died without doing it."""
        log = self.sink.path / "_delta_log"
        for version in range(max(0, looked_at - ATTEMPTS), DeltaTable(self.sink.path).version() + 1):
            with suppress(FileNotFoundError):  # cleaned: it is in a checkpoint
                sync(log / f"{version:020d}.json")
        sync(log)

    def _found(self, branch: Committable, table: DeltaTable, staged: list[Handle]) -> Outcome:
        """What is there of a branch; COMMITTED if all is there that a commit needs."""
        newest, (named, whole) = table.transaction_version(self.key), self._named(table, branch.handle.epoch)
        if branch.handle in named:
            return Outcome(Verdict.ALREADY, "a commit of the table names it")
        if not whole:
            return Outcome(Verdict.UNKNOWN, "the table's history does not go back to this epoch", contradiction=True)
        if branch.handle not in staged:
            lost = newest in (branch.data["before"], branch.handle.epoch)
            said = f"no file, no commit names it; the newest epoch is {newest}, and was {branch.data['before']}"
            return Outcome(Verdict.LOST if lost else Verdict.UNKNOWN, said, contradiction=not lost)
        if parquet.read_metadata(self.sink.staging.path(branch.handle)).num_rows != branch.rows:
            return Outcome(Verdict.REFUSED, "the staged file has been changed")
        return Outcome(Verdict.COMMITTED, f"after version {table.version()}")

    def withdraw(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """A commit of no file: a commit on its way fails, looks again, and finds no file."""
        table = DeltaTable(self.sink.path)
        self._add(table, [])
        self._make_durable(table.version())
        found = [(b.handle, self._named(table, b.handle.epoch)) for b in committables]
        undone = {True: GivenUp.UNDONE, False: GivenUp.NOT_KNOWN}
        return [GivenUp.COMMITTED if handle in named else undone[whole] for handle, (named, whole) in found]

    def _file(self, branch: Committable) -> AddAction:
        """The branch's file, where the table's files are; no version of the table names it yet."""
        staged, now, name = self.sink.staging.path(branch.handle), time.time(), f"{branch.handle}.parquet"
        os.utime(staged, (now, now))  # young: VACUUM leaves it alone
        with suppress(FileExistsError):
            os.link(staged, self.sink.path / name)
        return AddAction(name, branch.size_bytes, {}, int(now * 1000), True, json.dumps({"numRecords": branch.rows}))

    def _named(self, table: DeltaTable, epoch: int) -> tuple[set[Handle], bool]:
        """The branches of `epoch` and later that commits name; whether the history goes back so far."""
        newest = table.transaction_version(self.key)
        if newest is None or newest < epoch:
            return set(), True
        named, version = set[Handle](), None
        for limit in (10, 1000, None):  # the newest come first
            for commit in table.history(limit):
                version, marker = commit["version"], json.loads(commit.get("tpc", "{}"))
                if marker.get("key") == self.key:
                    named.update(map(Handle.parse, marker["handles"]))
                    if marker["before"] is None or marker["before"] < epoch:
                        return named, True
        return named, version == 0
