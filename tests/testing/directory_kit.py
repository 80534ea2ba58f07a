"""The hooks of the reference sink and of everything that is broken about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow

from tpc.sink import Sink
from tpc.testing import SinkConformance
from tpc.testing.directory_sink import DirectorySink

PASSWORD = "hunter2-of-the-kit"


class DirectoryKit(SinkConformance):
    sink_class: type[DirectorySink] = DirectorySink
    secrets = (PASSWORD,)
    deadline_s = 5.0

    def make_sink(self, tmp_path: Path, name: str = "a") -> DirectorySink:
        root = tmp_path / "target"
        root.mkdir(parents=True, exist_ok=True)
        (root / "password").write_text(PASSWORD)
        return self.sink_class(name, root, password=PASSWORD, timeout_s=1.0)

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        assert isinstance(sink, DirectorySink)
        return sink.rows()

    def leftovers(self, sink: Sink) -> list[str]:
        assert isinstance(sink, DirectorySink)
        return sink.leftovers()

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

    def bad_batch(self) -> pyarrow.RecordBatch:
        rows = [{"id": None, "value": "no key", "amount": 1.0}]
        return pyarrow.RecordBatch.from_pylist(rows, schema=self.schema)
