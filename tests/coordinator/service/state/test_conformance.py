"""The conformance kit on the store of a state."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tpc.chaos.checkers.service_state import held_rows
from tpc.coordinator.service.state import StateSink
from tpc.coordinator.service.state.changes import SCHEMA
from tpc.sink import Sink
from tpc.testing import SinkConformance


def rows(path: Path, question: str) -> list[tuple[Any, ...]]:
    """What anybody finds in the database."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        return db.execute(question).fetchall()


@pytest.mark.slow
class TestStateSink(SinkConformance):
    schema = SCHEMA
    keyed = "key"
    required_columns = ("key", "value")
    deadline_s = 5.0
    deaths = 6
    has_no_secrets = "a file asks for no password"
    is_alone = "only this sink writes to its store"
    fixed_columns = "a state has three columns"
    has_no_unique_keys = "a state is written by its key"
    cannot_add_column = "a state has three columns"
    cannot_plant = "only this sink writes to its store"
    cannot_cut_power = "test_kills.py cuts the power of a file system under a store that is being written to"
    one_act = "an epoch is applied by one transaction"

    def row(self, number: int) -> dict[str, Any]:
        return {"key": f"key {number}".encode(), "value": f"value {number}".encode(), "expires_ms": number}

    def make_sink(self, tmp_path: Path, name: str = "a") -> StateSink:
        (tmp_path / "service").mkdir(exist_ok=True)
        return StateSink(name, tmp_path / "service" / "state", timeout_s=2.0)

    def stores(self, sink: Sink) -> list[Path]:
        assert isinstance(sink, StateSink)
        return sorted(sink.directory.glob("*.db"))

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        return [dict(zip(SCHEMA.names, row, strict=True)) for path in self.stores(sink) for row in held_rows(path)]

    def leftovers(self, sink: Sink) -> list[Any]:
        return [row for path in self.stores(sink) for row in rows(path, "SELECT handle FROM deltas WHERE applied = 0")]

    @contextmanager
    def outage(self, sink: Sink) -> Iterator[None]:
        """The directory is away, and a file is in its place, as with a mount that failed."""
        assert isinstance(sink, StateSink)
        root = sink.directory.parent
        away = root.rename(root.with_name("away"))
        root.write_text("not mounted")
        try:
            yield
        finally:
            root.unlink()
            away.rename(root)

    @contextmanager
    def restore_backup(self, sink: Sink) -> Iterator[None]:
        assert isinstance(sink, StateSink)
        backup = sink.path.with_suffix(".backup")
        with closing(sqlite3.connect(sink.path)) as of, closing(sqlite3.connect(backup)) as to:
            of.backup(to)
        yield
        for ending in ("-wal", "-shm"):
            sink.path.with_name(sink.path.name + ending).unlink(missing_ok=True)
        backup.replace(sink.path)

    def bad_batch(self) -> pyarrow.RecordBatch:
        nullable = pyarrow.schema([field.with_nullable(True) for field in self.schema])
        return pyarrow.RecordBatch.from_pylist([{"key": None, "value": b"no key"}], schema=nullable)
