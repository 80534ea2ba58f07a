"""The conformance kit on the Delta sink."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
from delta_sink import DeltaSink
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType
from pyarrow import parquet

from tpc.sink import Sink
from tpc.testing import SinkConformance

ID, VALUE, AMOUNT = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("double")


class TestDeltaSink(SinkConformance):
    """One Delta table for each test."""

    deadline_s = 5.0
    has_no_secrets = "a local directory asks for no password"
    cannot_cut_power = "the tests cannot take the power from a local disk"
    has_no_unique_keys = "Delta has no unique keys"
    fixed_columns = "the tests have one table"

    def make_sink(self, tmp_path: Path, name: str = "a") -> DeltaSink:
        """Both sinks of a test write into one table."""
        self.path = tmp_path / "table"
        if not (self.path / "_delta_log").exists():
            fields = [Field("id", ID, nullable=False), Field("value", VALUE), Field("amount", AMOUNT)]
            DeltaTable.create(self.path, Schema(fields))
        return DeltaSink(self.path, name=name)

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        """The table as anybody reads it."""
        return [row for file in DeltaTable(self.path).file_uris() for row in parquet.read_table(file).to_pylist()]

    def leftovers(self, sink: Sink) -> list[Any]:
        """What is staged."""
        return [path.name for path in (self.path / "_tpc" / "staging").glob("*")]

    @contextmanager
    def outage(self, sink: Sink) -> Iterator[None]:
        """The table is away."""
        away = self.path.rename(self.path.with_name("away"))
        try:
            yield
        finally:
            away.rename(self.path)

    def foreign_write(self, sink: Sink) -> None:
        """Anybody may append to the table."""
        row = {"id": -1, "value": "of somebody else", "amount": 0.5}
        schema = pyarrow.schema([self.schema.field("id").with_nullable(False), *list(self.schema)[1:]])
        write_deltalake(self.path, pyarrow.Table.from_pylist([row], schema=schema), mode="append")

    @contextmanager
    def restore_backup(self, sink: Sink) -> Iterator[None]:
        """The directory of before, put in the place of the directory of now."""
        backup = shutil.copytree(self.path, self.path.with_name("backup"))
        yield
        shutil.rmtree(self.path)
        backup.rename(self.path)

    @contextmanager
    def look_alike(self, sink: Sink, name: str) -> Iterator[None]:
        """A file among those that are staged."""
        planted = self.path / "_tpc" / "staging" / name
        planted.touch()
        yield
        planted.unlink()

    def bad_batch(self) -> pyarrow.RecordBatch:
        """The table wants an id."""
        return pyarrow.RecordBatch.from_pylist([{"id": None, "value": "no id", "amount": 1.0}], schema=self.schema)

    def forget_markers(self, sink: Sink) -> None:
        """What Delta's log cleanup does: a checkpoint, and no commits before it; somebody has made a later one."""
        DeltaTable(self.path).alter.set_table_properties({"delta.checkpointInterval": "10"})
        table = DeltaTable(self.path)
        table.create_checkpoint()
        for version in range(table.version()):
            (self.path / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)
