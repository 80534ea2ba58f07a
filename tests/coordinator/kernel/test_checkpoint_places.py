"""What the text of a checkpoint names: its files, and the log beside them, wherever that is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tpc
from tests.core.builders import generation_body
from tests.support.s3_server import BUCKET, S3Server
from tpc.__main__ import app
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.checkpoint_places import local_root, log_beside
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.objects import ObjectLog
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.coordinator.operations.commands.targets import place_named
from tpc.coordinator.spark.checkpoint_places import files_at
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.spark_files import SparkFiles
from tpc.errors import CheckpointInUseError, ConfigurationError
from tpc.records import RecordKind


@pytest.fixture(autouse=True)
def _notes_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPC_NOTES", str(tmp_path / "notes"))


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with S3Server().running() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3a://{BUCKET}/{uuid.uuid4().hex}"


def begin(place: ObjectLog) -> None:
    Journal(place).append(RecordKind.GENERATION, generation_body(1))


@pytest.mark.parametrize("place", ["c", "{}/c", "file://{}/c", "file:{}/c"])
def test_a_path_and_a_file_url_are_directories_of_this_machine(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = files_at(place.format(tmp_path), explicit_log=False)
    assert isinstance(files, LocalFiles)
    assert (local_root(files), files.notes) == (tmp_path / "c", tmp_path / "c" / "tpc")


@pytest.mark.parametrize(
    "url", ["s3a://bucket/c", "hdfs://host:9000/c", "gs://b/c", "abfss://box@account.dfs.core.windows.net/c"]
)
def test_every_other_url_is_reached_through_spark_and_keeps_its_slashes(url: str) -> None:
    files = files_at(url + "/", explicit_log=True)
    assert isinstance(files, SparkFiles)
    assert (str(files), files.where("offsets/1")) == (url, f"{url}/offsets/1")


def test_notes_on_a_checkpoint_elsewhere_lie_on_this_machine_apart_for_each(tmp_path: Path) -> None:
    one, other = (files_at(f"s3a://bucket/{name}", explicit_log=False).notes for name in ("a/b", "a-b"))
    assert one != other
    assert {one.parent, other.parent} == {tmp_path / "notes"}


def test_two_starts_on_one_machine_are_noticed_by_the_checkpoint_s_name() -> None:
    files = files_at("s3a://bucket/c", explicit_log=False)
    with (
        CheckpointLock(files.notes),
        pytest.raises(CheckpointInUseError, match="checkpoint s3a://bucket/c is in use"),
    ):
        CheckpointLock(files.notes, of=str(files)).acquire()


@pytest.mark.parametrize("password", ["hunter2", "hun/ter2", "7hunter2/"])
def test_a_password_in_the_url_is_refused_and_not_shown(password: str) -> None:
    with pytest.raises(ConfigurationError, match="holds a password") as caught:
        files_at(f"s3a://key:{password}@bucket/c", explicit_log=False)
    assert "hun" not in str(caught.value)


@pytest.mark.parametrize("url", ["hdfs://host:8020/a@b/c", "abfss://box@account.dfs.core.windows.net/c", "hdfs://h:1"])
def test_a_port_and_a_user_are_no_password(url: str) -> None:
    assert str(files_at(url, explicit_log=True)) == url


@pytest.mark.parametrize("url", ["s3a://b/c", "s3://b/c", "gs://b/c", "abfss://box@account.dfs.core.windows.net/c"])
def test_beside_a_checkpoint_in_an_object_store_lies_a_log_of_conditional_puts(url: str) -> None:
    log = log_beside(files_at(url, explicit_log=False))
    assert isinstance(log, ObjectLog)
    assert log.describe().endswith("/c/tpc/log")


@pytest.mark.parametrize("url", ["hdfs://host/c", "wasb://box@host/c", "webhdfs://host/c"])
def test_where_nothing_puts_if_absent_a_log_elsewhere_is_asked_for(url: str) -> None:
    with pytest.raises(ConfigurationError, match="no intent log can lie beside the checkpoint") as caught:
        _ = tpc.pipeline("orders", checkpoint=url).log
    assert "SqlLog" in caught.value.remedy
    assert isinstance(tpc.pipeline("orders", checkpoint=url, log=SqlLog("sqlite://", pipeline="p")).log, SqlLog)


def test_commands_find_the_log_of_a_checkpoint_by_its_url_without_spark(bucket: str) -> None:
    place = log_beside(files_at(bucket, explicit_log=False))
    assert isinstance(place, ObjectLog)
    begin(place)
    status = CliRunner().invoke(app, ["status", bucket, "--json"])
    assert (status.exit_code, json.loads(status.output)["generation"]) == (0, 1), status.output
    found, checkpoint = place_named(bucket)
    assert (found.describe(), str(checkpoint)) == (place.describe(), bucket)
    by_its_own_url, nothing = place_named(f"{bucket}/tpc/log")
    assert (by_its_own_url.slots(), nothing) == ([1], None)


def test_a_checkpoint_elsewhere_is_named_with_a_log_in_another_place(tmp_path: Path) -> None:
    _, checkpoint = place_named("hdfs://host/c", str(tmp_path / "log"))
    assert str(checkpoint) == "hdfs://host/c"


def test_no_savepoint_is_made_of_a_checkpoint_elsewhere_and_none_restored_there() -> None:
    with pytest.raises(ConfigurationError, match="no savepoint is made of it"):
        local_root(files_at("s3a://bucket/c", explicit_log=False))
    for command in (["restore", "nowhere", "--fork"], ["adopt", "nowhere", "--name", "orders"]):
        done = CliRunner().invoke(app, [*command, "--checkpoint", "s3a://bucket/c"])
        assert "no directory of this machine" in str(done.exception) + done.output


@pytest.mark.parametrize("place", ["hdfs:/jobs/orders", "s3a:/bucket/orders", "FILE:///tmp/orders"])
def test_half_a_url_is_no_directory_below_the_current_one(place: str) -> None:
    with pytest.raises(ConfigurationError, match="is no whole URL and no path"):
        files_at(place, explicit_log=True)
