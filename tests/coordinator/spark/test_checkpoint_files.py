"""The files of a checkpoint: one contract for every place where Spark can keep one.

With `CHECKPOINT_PLACE` in the environment, the URL of a folder, it is that place's alone, and `CHECKPOINT_SETTINGS` are
the session's settings for it, as JSON. So `tests/clusters` runs it on S3 and HDFS.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tpc.chaos.servers.spark_session import spark_session
from tpc.coordinator.spark import spark_files
from tpc.coordinator.spark.checkpoint_files import CheckpointFiles
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.spark_files import SparkFiles
from tpc.errors import ConfigurationError, TransientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE = os.environ.get("CHECKPOINT_PLACE")
ON_DISK = ("a directory", pytest.param("a URL of Spark's", marks=pytest.mark.spark))


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[SparkSession]:
    session = spark_session("elsewhere", extra=json.loads(os.environ["CHECKPOINT_SETTINGS"]))
    yield session
    session.stop()


@pytest.fixture(params=(PLACE,) if PLACE else ON_DISK)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointFiles:
    if request.param == "a directory":
        return LocalFiles(tmp_path)
    name = "elsewhere" if PLACE else "spark"
    url = f"{PLACE}/{uuid.uuid4().hex}" if PLACE else f"file://{tmp_path}"
    return SparkFiles(url, tmp_path / "notes", request.getfixturevalue(name))


on_disk = pytest.mark.skipif(PLACE is not None, reason="bytes cannot be changed there behind the file system's back")


def test_what_is_not_there_is_no_error(files: CheckpointFiles) -> None:
    assert (files.read("offsets/0"), files.read_whole("offsets/0"), files.entries("offsets")) == (None, None, [])


def test_what_is_written_is_read_and_listed_and_nothing_else(files: CheckpointFiles) -> None:
    files.write("offsets/0", b"v1\n{}")
    files.write("metadata", b'{"id":"q"}')
    assert (files.read("offsets/0"), files.read_whole("metadata")) == (b"v1\n{}", b'{"id":"q"}')
    assert [(one.name, one.is_folder, one.size_bytes) for one in files.entries("offsets")] == [("0", False, 5)]
    assert [(one.name, one.is_folder) for one in files.entries("")] == [("metadata", False), ("offsets", True)]


def test_a_file_that_is_there_is_replaced(files: CheckpointFiles) -> None:
    for text in (b"first", b"second and longer", b"3rd"):
        files.write("commits/7", text)
        assert files.read_whole("commits/7") == text


def test_all_bytes_come_back(files: CheckpointFiles) -> None:
    data = bytes(range(256)) * 1000
    files.write("state/0/0/1_x.changelog", data)
    assert files.read("state/0/0/1_x.changelog") == data


@pytest.mark.parametrize("left", [b"", b"\0" * 600])
def test_a_file_that_holds_nothing_is_there_and_not_whole(files: CheckpointFiles, left: bytes) -> None:
    files.write("offsets/3", left)
    assert (files.read("offsets/3"), files.read_whole("offsets/3")) == (left, None)


def test_what_is_moved_aside_is_gone_for_spark_and_kept_for_people(files: CheckpointFiles) -> None:
    for text in (b"first", b"second"):
        files.write("offsets/3", text)
        files.move_aside("offsets/3")
    assert (files.read("offsets/3"), files.entries("offsets")) == (None, [])
    kept = [files.read(name) for name in files.below("tpc")]
    assert kept == [b"first", b"second"]


def test_all_files_below_a_folder_are_found(files: CheckpointFiles) -> None:
    names = ["state/0/0/1.zip", "state/0/0/_metadata/schema", "state/0/0/SSTs/a.sst", "state/1/5/2.zip"]
    for name in names:
        files.write(name, b"x")
    assert sorted(files.below("state")) == sorted(names)
    assert sorted(files.below("state", leave_out=("SSTs",))) == sorted(set(names) - {"state/0/0/SSTs/a.sst"})


def test_spark_s_log_is_read_restored_and_moved_aside(files: CheckpointFiles) -> None:
    log = SparkLog(files)
    log.restore("offsets", 2, "v1\n{}\n4")
    log.restore("offsets", 10, "v1\n{}\n5")
    log.restore_metadata("q")
    log.make_durable(10)
    log.move_aside("offsets", 10)
    assert (log.batches("offsets"), log.read("offsets", 2), log.query_id()) == ([2], "v1\n{}\n4", "q")
    assert log.agrees_with_checksum("offsets", 2)


@on_disk
@pytest.mark.parametrize("left", [b"v1\n{}\n5", b"", b"v1"], ids=["other bytes", "empty", "cut off"])
def test_a_file_that_is_not_what_its_checksums_say_is_not_whole(
    files: CheckpointFiles, tmp_path: Path, spark: SparkSession, left: bytes
) -> None:
    SparkFiles(f"file://{tmp_path}", tmp_path, spark).write("offsets/3", b"v1\n{}\n4")
    (tmp_path / "offsets" / "3").write_bytes(left)
    assert files.read_whole("offsets/3") is None
    assert files.read("offsets/3") is not None


# Through Spark alone -----------------------------------------------------------------------------------------------


@pytest.fixture
def reached(spark: SparkSession, tmp_path: Path) -> Callable[[str], SparkFiles]:
    return lambda url: SparkFiles(url, tmp_path, spark)


@on_disk
def test_a_file_system_that_spark_does_not_know_is_named_with_the_remedy(reached: Callable[[str], SparkFiles]) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot use the checkpoint nothing://host/c: .*nothing") as caught:
        reached("nothing://host/c").read("metadata")
    assert "spark.jars" in caught.value.remedy


@on_disk
def test_what_the_file_system_refuses_is_passing_trouble_with_its_words(
    reached: Callable[[str], SparkFiles], tmp_path: Path
) -> None:
    (tmp_path / "offsets").write_text("a file where a folder should be")
    with pytest.raises(TransientError, match="offsets/3 cannot be written: "):
        reached(f"file://{tmp_path}").write("offsets/3", b"v1")


@on_disk
def test_a_file_system_that_does_not_answer_is_given_up(
    reached: Callable[[str], SparkFiles], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, answers = reached(f"file://{tmp_path}"), threading.Event()
    files.read("metadata")
    monkeypatch.setattr(spark_files, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(files, "_path", lambda name: answers.wait())
    with pytest.raises(TransientError, match="metadata cannot be read: no answer within"):
        files.read("metadata")
    answers.set()


@on_disk
def test_many_calls_keep_no_more_threads_of_the_jvm_than_one(
    reached: Callable[[str], SparkFiles], tmp_path: Path, spark: SparkSession
) -> None:
    threads = spark._jvm.java.lang.management.ManagementFactory.getThreadMXBean()  # type: ignore[union-attr]  # a session has one
    files = reached(f"file://{tmp_path}")
    files.read("metadata")
    before = threads.getThreadCount()
    for _ in range(50):
        files.read("metadata")
    assert threads.getThreadCount() < before + 25


@on_disk
def test_without_a_session_a_checkpoint_elsewhere_is_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(ConfigurationError, match="no Spark session runs in this process"):
        SparkFiles("s3a://bucket/c", tmp_path).read("metadata")


def test_a_folder_that_lies_on_another_disk_by_a_link_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "large" / "0").mkdir(parents=True)
    (tmp_path / "large" / "0" / "1.delta").write_bytes(b"x")
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "state").mkdir()
    (checkpoint / "state" / "0").symlink_to(tmp_path / "large")
    files = LocalFiles(checkpoint)
    assert [entry.is_folder for entry in files.entries("state")] == [True]
    assert [name for name in files.below("state") if name.endswith("1.delta")] == ["state/0/0/1.delta"]
