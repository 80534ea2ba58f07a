"""The conformance kit on the effects sink: what readers see are the effects that are decided."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tpc.sink import Sink
from tpc.sinks import Effect, EffectSink
from tpc.testing import SinkConformance


def never(effect: Effect) -> None:
    """Nothing is complete here."""
    raise AssertionError(f"{effect.key} was called")


def as_float(row: dict[str, Any]) -> float | None:
    """JSON has one kind of number, and NaN as text."""
    return None if row.get("amount") is None else float(row["amount"])


@pytest.mark.slow
class TestEffectSink(SinkConformance):
    """One outbox for each test."""

    deadline_s = 5.0
    deaths = 6
    large_branch_rows = 20_000
    has_no_secrets = "the outbox is a local directory, and calls stay where they are made"
    cannot_cut_power = "the tests cannot take the power from a local disk"
    fixed_columns = "an effect's row is text, whatever its columns are: the types of it are those of `arrow_json`"
    has_no_types = "an effect's row is JSON, whatever its columns are"
    has_no_unique_keys = "effects with equal keys are two effects"
    cannot_add_column = "an outbox has no columns of its own"
    is_alone = "nobody else writes to an outbox"

    def make_sink(self, tmp_path: Path, name: str = "a") -> EffectSink:
        """Both sinks of a test have one outbox."""
        self.path = tmp_path / "outbox"
        self.path.mkdir(exist_ok=True)
        return EffectSink(name, self.path, call=never, key=["id"], guarantee="at-least-once", timeout_s=2.0)

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        """The effects that are there, as anybody finds them in the file."""
        with closing(sqlite3.connect(self.path / "_tpc" / "effects.db")) as db:
            rows = [json.loads(row) for (row,) in db.execute("SELECT row FROM effects")]
        return [{**{name: row.get(name) for name in self.schema.names}, "amount": as_float(row)} for row in rows]

    def leftovers(self, sink: Sink) -> list[Any]:
        """What is staged."""
        return [path.name for path in (self.path / "_tpc" / "staging").glob("*")]

    @contextmanager
    def outage(self, sink: Sink) -> Iterator[None]:
        """The outbox is away."""
        away = self.path.rename(self.path.with_name("away"))
        try:
            yield
        finally:
            away.rename(self.path)

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
        """A row without a key names no effect."""
        return pyarrow.RecordBatch.from_pylist([{"id": None, "value": "no id", "amount": 1.0}], schema=self.schema)

    def forget_markers(self, sink: Sink) -> None:
        """The effects stay."""
        with closing(sqlite3.connect(self.path / "_tpc" / "effects.db", isolation_level=None)) as db:
            db.execute("DELETE FROM markers")
