"""The hooks of the reference sink and of everything that is broken about it."""

from __future__ import annotations

import itertools
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from tests.support.lossy_disk import LossyDisk
from tpc.sink import Sink
from tpc.testing import SinkConformance
from tpc.testing.directory_sink import DirectorySink
from tpc.testing.values import SPARK_TYPES

PASSWORD = "hunter2-of-the-kit"


class DirectoryKit(SinkConformance):
    sink_class: type[DirectorySink] = DirectorySink
    secrets = (PASSWORD,)
    deadline_s = 20.0
    types = SPARK_TYPES
    ordered = True
    cannot_add_column = "a directory has no columns"
    numbers = itertools.count(1)

    @pytest.fixture(autouse=True)
    def lossy_disk(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
        """What is not synced is lost in the test that cuts the power."""
        if "power_cut" not in request.node.name:
            yield
            return
        with LossyDisk(tmp_path / "target") as self.disk:
            yield

    def make_sink(self, tmp_path: Path, name: str = "a") -> DirectorySink:
        return self.sink_in(tmp_path / "target", name)

    def sink_in(self, root: Path, name: str) -> DirectorySink:
        root.mkdir(parents=True, exist_ok=True)
        with (root / "password").open("w") as file:
            file.write(PASSWORD)
            file.flush()
            os.fsync(file.fileno())
        return self.sink_class(name, root, password=PASSWORD, timeout_s=15.0)  # each act is traced, beside other tests

    def make_sink_elsewhere(self, tmp_path: Path, name: str = "a") -> DirectorySink:
        return self.sink_in(tmp_path / "elsewhere", name)

    def make_sink_on(self, tmp_path: Path, target: str, name: str = "a") -> DirectorySink:
        return self.sink_in(tmp_path / "targets" / target, name)

    def make_sink_with_unique_key(self, tmp_path: Path, name: str = "a") -> DirectorySink:
        """In a directory of its own, whose owner wants each key once."""
        sink = self.sink_in(tmp_path / "unique", name)
        (sink.root / "unique").touch()
        return sink

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        assert isinstance(sink, DirectorySink)
        return sink.rows()

    def leftovers(self, sink: Sink) -> list[str]:
        assert isinstance(sink, DirectorySink)
        return sink.leftovers()

    def forget_markers(self, sink: Sink) -> None:
        assert isinstance(sink, DirectorySink)
        sink.forget_markers()

    def consume(self, sink: Sink) -> None:
        """Files stay, since they are the markers; their rows go."""
        assert isinstance(sink, DirectorySink)
        for path in (sink.root / "visible").glob("*"):
            with pyarrow.ipc.new_stream(str(path), self.schema):
                pass

    @contextmanager
    def outage(self, sink: Sink) -> Iterator[None]:
        """The directory is away, and a file is in its place, as with a mount that failed."""
        assert isinstance(sink, DirectorySink)
        away = sink.root.with_name("away")
        sink.root.rename(away)
        sink.root.write_text("not mounted")
        try:
            yield
        finally:
            sink.root.unlink()
            away.rename(sink.root)

    def foreign_write(self, sink: Sink) -> None:
        """A file of somebody else's among the visible ones."""
        assert isinstance(sink, DirectorySink)
        name, number = f"foreign-{uuid.uuid4()}", -next(self.numbers)
        with pyarrow.ipc.new_stream(str(sink.root / name), self.schema) as stream:
            stream.write_batch(pyarrow.RecordBatch.from_pylist([self.row(number)], schema=self.schema))
        (sink.root / name).rename(sink.root / "visible" / name)

    @contextmanager
    def restore_backup(self, sink: Sink) -> Iterator[None]:
        assert isinstance(sink, DirectorySink)
        backup = sink.root.with_name("backup")
        shutil.copytree(sink.root, backup)
        yield
        shutil.rmtree(sink.root)
        backup.rename(sink.root)

    def power_cut(self, sink: Sink) -> str:
        return self.disk.power_cut()

    @contextmanager
    def look_alike(self, sink: Sink, name: str) -> Iterator[None]:
        assert isinstance(sink, DirectorySink)
        place = sink.root / "prepared" / name
        place.touch()
        yield
        place.unlink()

    @contextmanager
    def crowd(self, sink: Sink, count: int) -> Iterator[None]:
        """Files of others, whose names come before those of branches."""
        assert isinstance(sink, DirectorySink)
        places = [sink.root / "prepared" / f"backup-{number}" for number in range(count)]
        for place in places:
            place.touch()
        yield
        for place in places:
            place.unlink()

    def expiring(self, sink: Sink) -> list[str]:
        """What a cleaning job of the directory would remove."""
        assert isinstance(sink, DirectorySink)
        return sorted(path.name for path in (sink.root / "expiring").glob("*"))

    def bad_batch(self) -> pyarrow.RecordBatch:
        rows = [{"id": None, "value": "no key", "amount": 1.0}]
        return pyarrow.RecordBatch.from_pylist(rows, schema=self.schema)
