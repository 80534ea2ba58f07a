"""The conformance kit on the file sink, in each of its formats."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.support.lossy_disk import LossyDisk
from tpc.sink import Sink
from tpc.sinks.files import committed_paths
from tpc.sinks.files.sink import FileSink
from tpc.testing import SinkConformance
from tpc.testing.values import SPARK_TYPES


def amount(row: dict[str, Any]) -> dict[str, float]:
    """JSON has one kind of numbers."""
    return {"amount": float(row["amount"])} if "amount" in row else {}


class FilesKit(SinkConformance):
    format: ClassVar[str]
    deadline_s = 10.0
    has_no_secrets = "a directory has none"
    takes_every_row = "a file takes every row whose types `check` let pass"
    is_alone = "its readers read what its manifests name, so that nobody else writes to it"
    has_no_unique_keys = "a file takes equal rows"
    cannot_add_column = "each file has its own columns"
    one_act = "the manifest of an epoch publishes all its files"

    def make_sink(self, tmp_path: Path, name: str = "a") -> FileSink:
        # Longer than a first write takes, with all that it loads, whose every system call is traced.
        return FileSink(tmp_path / "target", name=name, format=self.format, timeout_s=10.0)

    def make_sink_on(self, tmp_path: Path, target: str, name: str = "a") -> FileSink:
        return FileSink(tmp_path / "targets" / target, name=name, format=self.format, timeout_s=10.0)

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

    @pytest.fixture(autouse=True)
    def lossy_disk(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
        """What is not synced is lost in the test that cuts the power."""
        if "power_cut" not in request.node.name:
            yield
            return
        with LossyDisk(tmp_path / "target") as self.disk:
            yield

    def power_cut(self, sink: Sink) -> str:
        return self.disk.power_cut()

    @contextmanager
    def restore_backup(self, sink: Sink) -> Iterator[None]:
        assert isinstance(sink, FileSink)
        root, backup = Path(sink.path), Path(sink.path).with_name("backup")
        shutil.copytree(root, backup)
        yield
        shutil.rmtree(root)
        backup.rename(root)

    def forget_markers(self, sink: Sink) -> None:
        assert isinstance(sink, FileSink)
        shutil.rmtree(Path(sink.path) / "_tpc" / "manifests")

    @contextmanager
    def look_alike(self, sink: Sink, name: str) -> Iterator[None]:
        assert isinstance(sink, FileSink)
        place = Path(sink.path) / "_tpc" / "staging" / name
        place.touch()
        yield
        place.unlink()

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
    slow_tests = (
        "test_a_large_branch_arrives_whole",
        "test_a_commit_of_a_large_branch_that_dies_at_any_act_is_finished_by_the_next",
    )
    format = "parquet"
    types = SPARK_TYPES

    def rows_of(self, path: Path) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
        return rows


@pytest.mark.slow
class TestJson(FilesKit):
    format = "json"
    fixed_columns = "the hook reads JSON without knowing the types; tests/sinks/files/test_formats.py tries them"
    has_no_types = "JSON spells dates, decimals and bytes as text"
    large_branch_rows = 20_000

    def rows_of(self, path: Path) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line]
        return [{**dict.fromkeys(self.schema.names), **row, **amount(row)} for row in rows]


@pytest.mark.slow
class TestCsv(FilesKit):
    format = "csv"
    fixed_columns = "tests/sinks/files/test_formats.py tries what CSV can hold"
    has_no_types = "CSV is text"
    large_branch_rows = 20_000

    def rows_of(self, path: Path) -> list[dict[str, Any]]:
        options = pyarrow.csv.ConvertOptions(
            column_types=self.schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
        rows: list[dict[str, Any]] = pyarrow.csv.read_csv(
            path, convert_options=options, parse_options=parsing
        ).to_pylist()
        return rows
