"""A worker process looks up what it has before its first branch; that the look fails is no failure of the epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.folder_sink import FolderSink
from tpc.coordinator.kernel.feeding.branch import Mode, SinkTask
from tpc.coordinator.kernel.feeding.partition import EpochWork
from tpc.coordinator.spark.executor_needs import needs_of, version_here
from tpc.coordinator.spark.executor_probe import answer
from tpc.coordinator.spark.executors import _sendable
from tpc.coordinator.spark.passes import worker_needs
from tpc.coordinator.spark.passes.worker_needs import DriverHas, require_needs
from tpc.errors import ConfigurationError
from tpc.handles import PipelineId
from tpc.settings import Elsewhere, env
from tpc.sink import ExecutorNeeds

HERE = DriverHas(version_here("tpc"), frozenset())


class BrokenSink(FolderSink):
    """Does not know what it needs."""

    def executor_needs(self) -> ExecutorNeeds:
        raise KeyError("needs")


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_needs, "_have_answered", set())


@pytest.fixture
def gone(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    (tmp_path / "release").mkdir()
    os.chdir(tmp_path / "release")
    (tmp_path / "release").rmdir()
    yield
    os.chdir(before)


def sink_with(setting: Elsewhere, folder: Path) -> FolderSink:
    sink = FolderSink("rows", folder)
    sink.address = setting  # type: ignore[attr-defined]
    return sink


def vault() -> Elsewhere:
    """Of a class that only this process knows, as in a user's script."""

    class Vault(Elsewhere):
        def read(self) -> str:
            return "value"

    return Vault()


def work(sink: FolderSink) -> EpochWork:
    return EpochWork(PipelineId("job"), 1, 7, (SinkTask(sink, (), Mode.WRITE, {}),), (), False)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of the needs; others in this process may log at any time."""
    return [record.getMessage() for record in caplog.records if record.name == worker_needs.logger.name]


def test_a_setting_whose_class_cannot_be_imported_is_read_where_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_needs(work(sink_with(vault(), tmp_path)), HERE)
    assert told(caplog) == []


def test_such_a_setting_is_sent_to_executors_with_its_class(tmp_path: Path) -> None:
    needs = needs_of({"rows": sink_with(vault(), tmp_path)})
    given = answer({**_sendable(needs), "places": {}, "pause_s": 0.0}, 0)
    assert list(given["settings"].values()) == [""]


def test_a_setting_that_cannot_be_read_is_still_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needed by rows: environment variable TPC_TEST_NOWHERE is not set"):
        require_needs(work(sink_with(env("TPC_TEST_NOWHERE"), tmp_path)), HERE)


@pytest.mark.usefixtures("gone")
def test_a_working_directory_that_is_gone_fails_no_epoch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    require_needs(work(FolderSink("rows", tmp_path)), HERE)
    assert told(caplog) == []


@pytest.mark.usefixtures("gone")
def test_what_is_missing_is_told_without_a_working_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="in a directory that is gone"):
        require_needs(work(sink_with(env("TPC_TEST_NOWHERE"), tmp_path)), HERE)


def test_a_sink_that_cannot_be_asked_is_logged_once_and_fails_no_epoch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = work(BrokenSink("rows", tmp_path))
    assert DriverHas.of(broken) == HERE
    caplog.clear()
    require_needs(broken, HERE)
    require_needs(broken, HERE)
    assert caplog.text.count("what the sinks of job#1 need cannot be looked up here: KeyError: 'needs'") == 1
