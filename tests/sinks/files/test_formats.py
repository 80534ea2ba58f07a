"""What the file sink writes in each format, what it refuses, and what it does on a full disk."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import CheckContext, Verdict
from tpc.sinks.files import committed_files
from tpc.sinks.files.layout import manifests_from_the_newest, newest_epoch, place_of
from tpc.sinks.files.sink import FileSink

JOB = PipelineId("job")
UTC = dt.timezone.utc
PLAIN = pa.schema(
    [
        *(("s", pa.string()), ("i", pa.int64()), ("f", pa.float64()), ("t", pa.bool_()), ("day", pa.date32())),
        *(("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")), ("money", pa.decimal128(20, 2))),
    ]
)
ROWS: list[dict[str, Any]] = [
    {
        **{"s": 'q"\n,ä', "i": -(2**62), "f": 0.1, "t": True, "day": dt.date(2013, 1, 1)},
        **{"at": dt.datetime(2013, 1, 1, 5, 0, 0, 123456, tzinfo=UTC), "local": dt.datetime(2013, 1, 1, 5, 0, 0, 5)},
        "money": decimal.Decimal("123456789012345678.90"),
    },
    {"s": "", "i": 0, "f": 1e300, "t": False, "day": None, "at": None, "local": None, "money": None},
    dict.fromkeys(PLAIN.names),
]
NESTED = pa.schema([("id", pa.int64()), ("doc", pa.struct([("x", pa.list_(pa.string()))])), ("b", pa.binary())])
NESTED_ROWS: list[dict[str, Any]] = [
    {"id": 1, "doc": {"x": ["a", None]}, "b": b"\x00\xff"},
    {"id": None, "doc": None, "b": None},
]


def handle(epoch: int = 0) -> Handle:
    return Handle(JOB, 1, "files", epoch, 0, 0)


def written(path: Path, format: str, schema: pa.Schema, rows: list[dict[str, Any]], batches: int = 1) -> Path:
    """The file of one committed epoch."""
    sink = FileSink(str(path), name="files", format=format)
    committer = sink.committer(JOB)
    committer.check(CheckContext(JOB, schema, 1))
    writer = sink.writer(handle(), schema, committer.hint())
    for _ in range(batches):
        writer.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    committable = writer.prepare()
    assert committable is not None
    assert [outcome.verdict for outcome in committer.commit([committable])] == [Verdict.COMMITTED]
    (file,) = committed_files(str(path))
    assert file.rows == len(rows) * batches
    assert Path(file.path).stat().st_size == file.size_bytes
    return Path(file.path)


@pytest.mark.parametrize(("schema", "rows"), [(PLAIN, ROWS), (NESTED, NESTED_ROWS)])
def test_parquet_is_read_back_equal(tmp_path: Path, schema: pa.Schema, rows: list[dict[str, Any]]) -> None:
    table = pq.read_table(written(tmp_path, "parquet", schema, rows))
    assert table.schema == schema
    assert table.to_pylist() == rows


def test_small_batches_become_one_row_group(tmp_path: Path) -> None:
    path = written(tmp_path, "parquet", PLAIN, ROWS, batches=50)
    assert pq.ParquetFile(path).num_row_groups == 1
    assert pq.read_table(path).num_rows == 150


def test_many_rows_become_several_row_groups(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tpc.sinks.files.formats.ROW_GROUP_ROWS", 60)
    path = written(tmp_path, "parquet", PLAIN, ROWS, batches=50)
    assert pq.ParquetFile(path).num_row_groups == 3
    assert pq.read_table(path).num_rows == 150


def test_csv_is_read_back_equal(tmp_path: Path) -> None:
    path = written(tmp_path, "csv", PLAIN, ROWS)
    assert path.read_text().splitlines()[0] == ",".join(f'"{name}"' for name in PLAIN.names)
    options = csv.ConvertOptions(
        column_types=PLAIN, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    found = csv.read_csv(path, convert_options=options, parse_options=csv.ParseOptions(newlines_in_values=True))
    assert found.to_pylist() == ROWS


def test_json_lines_are_read_back_equal(tmp_path: Path) -> None:
    path = written(tmp_path, "json", PLAIN, ROWS, batches=2)
    found = [json.loads(line, parse_float=decimal.Decimal) for line in path.read_text().splitlines()]
    assert len(found) == 6
    first = found[0]
    assert found[3:] == found[:3]
    assert found[1] == {"s": "", "i": 0, "f": decimal.Decimal("1e+300"), "t": False}
    assert found[2] == {}
    assert first.pop("at") == "2013-01-01T05:00:00.123456Z"
    assert first.pop("local") == "2013-01-01T05:00:00.000005"
    assert first.pop("f") == decimal.Decimal("0.1")
    assert first == {
        **{"s": 'q"\n,ä', "i": -(2**62), "t": True, "day": "2013-01-01"},
        "money": decimal.Decimal("123456789012345678.90"),
    }


def test_nested_rows_in_json(tmp_path: Path) -> None:
    path = written(tmp_path, "json", NESTED, NESTED_ROWS)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"id": 1, "doc": {"x": ["a", None]}, "b": "AP8="},
        {},
    ]


# Refused before the first epoch --------------------------------------------------------------------------------


def check(path: str | Path, schema: pa.Schema = PLAIN, format: str = "parquet") -> None:
    FileSink(str(path), name="files", format=format).committer(JOB).check(CheckContext(JOB, schema, 1))


@pytest.mark.parametrize("path", ["s3://bucket/data", "hdfs://name/data", "abfss://c@a.dfs.core.windows.net/data"])
def test_remote_paths(path: str) -> None:
    with pytest.raises(ConfigurationError, match="not on a local file system") as raised:
        check(path)
    assert raised.value.sink == "files"


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    assert FileSink(f"file://{tmp_path}").path == FileSink(tmp_path).path == str(tmp_path)


@pytest.mark.parametrize(
    ("kind", "format"),
    [
        (pa.list_(pa.int64()), "csv"),
        (pa.struct([("x", pa.int64())]), "csv"),
        (pa.binary(), "csv"),
        (pa.duration("us"), "json"),
        (pa.map_(pa.int64(), pa.int64()), "json"),
        (pa.month_day_nano_interval(), "parquet"),
    ],
)
def test_columns_that_the_format_cannot_hold(tmp_path: Path, kind: pa.DataType, format: str) -> None:
    with pytest.raises(ConfigurationError, match="'v'") as raised:
        check(tmp_path, pa.schema([("id", pa.int64()), ("v", kind)]), format)
    assert raised.value.sink == "files"


@pytest.mark.parametrize("schema", [pa.schema([("v", pa.int64()), ("v", pa.int64())]), pa.schema([("v", pa.string())])])
def test_csv_whose_rows_could_not_be_told_apart(tmp_path: Path, schema: pa.Schema) -> None:
    with pytest.raises(ConfigurationError):
        check(tmp_path, schema, "csv")


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        check(tmp_path / "data")


def test_an_unknown_format() -> None:
    with pytest.raises(ConfigurationError, match="orc"):
        FileSink("/data", format="orc")


def test_check_makes_the_directories_and_leaves_nothing_else(tmp_path: Path) -> None:
    check(tmp_path / "a" / "b")
    found = sorted(str(path.relative_to(tmp_path / "a" / "b")) for path in (tmp_path / "a").rglob("*"))
    assert found == [".", "_tpc", "_tpc/identity", "_tpc/manifests", "_tpc/staging"]


@pytest.mark.parametrize("held", [b"", b"\n", b"\xff\xfe", b"\x1b]0;x\x07", b"no uuid"], ids=repr)
def test_an_identity_that_is_none_is_named_and_no_directory_is_taken_for_another(held: bytes, tmp_path: Path) -> None:
    check(tmp_path)
    (tmp_path / "_tpc" / "identity").write_bytes(held)
    committer = FileSink(tmp_path, name="files").committer(PipelineId("job"))
    with pytest.raises(CorruptionError, match=r"_tpc/identity.*holds no uuid") as raised:
        committer.identity()
    assert "\x1b" not in raised.value.what
    assert "put the file back" in raised.value.remedy


def test_a_copy_of_a_manifest_by_hand_is_no_manifest(tmp_path: Path) -> None:
    whole = tmp_path / place_of(7)
    whole.parent.mkdir(parents=True)
    for name in (whole.name, "x.json", f"{whole.stem} (copy).json"):
        whole.with_name(name).write_text("{}")
    assert newest_epoch(tmp_path) == 7
    assert list(manifests_from_the_newest(tmp_path)) == [whole]


# Another file system -------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    mount = tmp_path / "tiny"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_a_full_disk_aborts_the_epoch_and_names_the_path(tiny: Path, format: str) -> None:
    sink = FileSink(str(tiny), name="files", format=format)
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    sink.committer(JOB).check(CheckContext(JOB, schema, 1))
    writer = sink.writer(handle(3), schema, {})
    noise = pa.array([os.urandom(4000).hex() for _ in range(500)], pa.string())
    with pytest.raises(TransientError, match="No space left") as raised:
        for start in range(0, 5):
            writer.write(pa.RecordBatch.from_arrays([pa.array([start] * 500), noise], schema=schema))
        writer.prepare()
    writer.abort()
    assert str(tiny) in str(raised.value)
    assert (raised.value.epoch, raised.value.sink) == (3, "files")
    assert "free space" in raised.value.remedy
    assert list((tiny / "_tpc" / "staging").iterdir()) == []


def test_a_full_disk_at_commit_is_unknown_and_finished_when_there_is_room(tiny: Path) -> None:
    sink = FileSink(str(tiny), name="files")
    committer = sink.committer(JOB)
    schema = pa.schema([("id", pa.int64())])
    committer.check(CheckContext(JOB, schema, 1))
    writer = sink.writer(handle(), schema, committer.hint())
    writer.write(pa.RecordBatch.from_pylist([{"id": 1}], schema=schema))
    committable = writer.prepare()
    assert committable is not None
    filler = tiny / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(b"x" * 2_000_000)
    (outcome,) = committer.commit([committable])
    assert outcome.verdict is Verdict.UNKNOWN
    assert outcome.evidence == f"No space left on device in {tiny}; free space on its disk, or raise the quota"
    with pytest.raises(TransientError, match="has no room for what a commit writes: No space left") as raised:
        committer.check(CheckContext(JOB, schema, 1))
    assert raised.value.remedy == "free space on its disk, or raise the quota, then start again."
    assert committed_files(str(tiny)) == []
    filler.unlink()
    assert [o.verdict for o in committer.commit([committable])] == [Verdict.COMMITTED]
    assert [file.rows for file in committed_files(str(tiny))] == [1]


def test_staging_on_another_file_system_is_refused(tmp_path: Path, tiny: Path) -> None:
    (tmp_path / "data" / "_tpc").mkdir(parents=True)
    (tmp_path / "data" / "_tpc" / "staging").symlink_to(tiny)
    with pytest.raises(ConfigurationError, match="different file systems"):
        check(tmp_path / "data")


def test_a_file_system_that_hangs_is_given_up(tmp_path: Path, monkeypatch: Any) -> None:
    import threading

    sink = FileSink(str(tmp_path), name="files", timeout_s=0.2)
    writer = sink.writer(handle(), PLAIN, {})
    writer.write(pa.RecordBatch.from_pylist(ROWS, schema=PLAIN))
    answered = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _descriptor: answered.wait(30))
    with pytest.raises(TransientError, match=r"did not answer within 0\.2 s"):
        writer.prepare()
    assert list((tmp_path / "_tpc" / "staging").iterdir()) == []
    answered.set()
