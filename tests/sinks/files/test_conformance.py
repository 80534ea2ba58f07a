"""The conformance kit on the file sink, in each of its formats."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq

from tpc.sink import Sink
from tpc.sinks.files import committed_paths
from tpc.sinks.files.sink import FileSink
from tpc.testing import SinkConformance


class FilesKit(SinkConformance):
    format: ClassVar[str]
    deadline_s = 10.0
    has_no_secrets = "a directory has none"
    takes_every_row = "a file takes every row whose types `check` let pass"
    one_act = "the manifest of an epoch publishes all its files"

    def make_sink(self, tmp_path: Path, name: str = "a") -> FileSink:
        return FileSink(tmp_path / "target", name=name, format=self.format, timeout_s=2.0)

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        assert isinstance(sink, FileSink)
        return [row for path in committed_paths(sink.path) for row in self.rows_of(Path(path))]

    def rows_of(self, path: Path) -> list[dict[str, Any]]:
        """What a reader of the format finds in a file."""
        raise NotImplementedError

    def leftovers(self, sink: Sink) -> list[str]:
        """Files that are staged, or renamed and in no manifest."""
        assert isinstance(sink, FileSink)
        root = Path(sink.path)
        manifests = [json.loads(path.read_text()) for path in (root / "_tpc" / "manifests").rglob("*.json")]
        published = {file["file"] for manifest in manifests for file in manifest["files"]}
        staged = [path.name for path in (root / "_tpc" / "staging").glob("*")]
        return staged + [path.name for path in root.glob("tpc~*") if path.name not in published]

    @contextmanager
    def outage(self, sink: Sink) -> Iterator[None]:
        """The directory is away, and a file is in its place, as with a mount that failed."""
        assert isinstance(sink, FileSink)
        root, away = Path(sink.path), Path(sink.path).with_name("away")
        root.rename(away)
        root.write_text("not mounted")
        try:
            yield
        finally:
            root.unlink()
            away.rename(root)


class TestParquet(FilesKit):
    format = "parquet"

    def rows_of(self, path: Path) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
        return rows


class TestJson(FilesKit):
    format = "json"
    large_branch_rows = 20_000

    def rows_of(self, path: Path) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return [{**row, "amount": float(row["amount"])} for row in rows]


class TestCsv(FilesKit):
    format = "csv"
    large_branch_rows = 20_000

    def rows_of(self, path: Path) -> list[dict[str, Any]]:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        return [{"id": int(row["id"]), "value": row["value"], "amount": float(row["amount"])} for row in rows]
