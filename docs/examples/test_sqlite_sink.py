"""The conformance kit on the SQLite sink."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow
from sqlite_sink import SqliteSink

from tpc.sink import Sink
from tpc.testing import SinkConformance


def rows(path: Path, question: str) -> list[tuple[Any, ...]]:
    """What anybody finds in the database."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        return db.execute(question).fetchall()


class TestSqliteSink(SinkConformance):
    """One database for each test, and one table in it."""

    deadline_s = 5.0
    has_no_secrets = "SQLite asks for no password"
    cannot_cut_power = "the tests cannot take the power from a local disk"
    fixed_columns = "the tests have one table"
    cannot_plant = "only this sink writes to its staging table"

    def make_sink(self, tmp_path: Path, name: str = "a") -> SqliteSink:
        """Both sinks of a test write into one table."""
        self.path = tmp_path / "target.db"
        rows(self.path, "CREATE TABLE IF NOT EXISTS t (id INTEGER NOT NULL, value TEXT, amount REAL)")
        return SqliteSink(name, self.path, "t", timeout_s=2.0)

    def make_sink_with_unique_key(self, tmp_path: Path, name: str = "a") -> SqliteSink:
        """A table of its own, in which an id may come once."""
        self.path = tmp_path / "unique.db"
        rows(self.path, "CREATE TABLE t (id INTEGER NOT NULL UNIQUE, value TEXT, amount REAL)")
        return SqliteSink(name, self.path, "t", timeout_s=2.0)

    def add_column(self, sink: Sink, field: pyarrow.Field) -> None:
        """Whom the table belongs to alters it."""
        rows(self.path, f"ALTER TABLE t ADD COLUMN {field.name} TEXT")

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        """The table as anybody reads it."""
        found = rows(self.path, "SELECT id, value, amount FROM t")
        return [dict(zip(self.schema.names, row, strict=True)) for row in found]

    def leftovers(self, sink: Sink) -> list[Any]:
        """What is staged."""
        return rows(self.path, "SELECT tpc_handle FROM tpc_staging_t")

    @contextmanager
    def outage(self, sink: Sink) -> Iterator[None]:
        """The database is away."""
        away = self.path.rename(self.path.with_suffix(".away"))
        try:
            yield
        finally:
            away.rename(self.path)

    def foreign_write(self, sink: Sink) -> None:
        """Anybody may write to the table."""
        rows(self.path, "INSERT INTO t VALUES (-1, 'of somebody else', 0.5)")

    @contextmanager
    def restore_backup(self, sink: Sink) -> Iterator[None]:
        """The file of before, put in the place of the file of now."""
        backup = shutil.copy(self.path, self.path.with_suffix(".backup"))
        yield
        Path(backup).replace(self.path)

    def forget_markers(self, sink: Sink) -> None:
        """The rows stay."""
        rows(self.path, "DELETE FROM tpc_markers")

    def bad_batch(self) -> pyarrow.RecordBatch:
        """The table wants an id."""
        return pyarrow.RecordBatch.from_pylist([{"id": None, "value": "no id", "amount": 1.0}], schema=self.schema)
