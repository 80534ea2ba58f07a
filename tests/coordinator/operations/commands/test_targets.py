"""A checkpoint that is named beside a log must be the one of the log's pipeline, before a command records anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.core.builders import complete, generation_body, intent, manifest
from tpc.__main__ import app
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.kernel.runtime import NO_QUERY
from tpc.errors import ConfigurationError
from tpc.records import RecordKind

COMMANDS = {
    "resolve": ["--epoch", "1", "--sink", "a", "--accept-loss", "--although-not-refused", "--reason", "gone"],
    "savepoint": ["--to", "savepoints"],
}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalLog:
    """The log of query "q", whose epoch 1 is decided and not complete; it lies in no checkpoint."""
    monkeypatch.chdir(tmp_path)
    return begun(LocalLog(tmp_path / "log"), "q")


def begun(log: LocalLog, query_id: str) -> LocalLog:
    journal = Journal(log)
    journal.append(RecordKind.GENERATION, generation_body(1) | {"query_id": query_id})
    for kind, body in (intent(manifest(0)), complete(0), intent(manifest(1, {"a": 2, "b": 0}))):
        journal.append(kind, body)
    return log


def checkpoint_of(query_id: str | None) -> str:
    """A checkpoint; without a query's id one that Spark has written nothing into."""
    Path("checkpoint").mkdir()
    if query_id is not None:
        Path("checkpoint", "metadata").write_text(json.dumps({"id": query_id}))
    return "checkpoint"


def resolved(target: str, log: LocalLog, command: str = "resolve") -> Result:
    return CliRunner().invoke(app, [command, target, "--log", str(log.directory), *COMMANDS[command]])


def refused(target: str, log: LocalLog, command: str) -> ConfigurationError:
    """Nothing was recorded, and the command says so."""
    slots = log.slots()
    error = resolved(target, log, command).exception
    assert isinstance(error, ConfigurationError)
    assert "nothing was changed" in error.safe
    assert log.slots() == slots
    return error


@pytest.mark.parametrize("command", COMMANDS)
def test_a_checkpoint_that_is_not_there_is_refused_and_not_made(log: LocalLog, tmp_path: Path, command: str) -> None:
    error = refused("typo", log, command)
    assert f"there is no checkpoint {tmp_path / 'typo'}" in error.what
    assert not Path("typo").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_checkpoint_of_another_query_is_refused_before_its_lock_is_taken(log: LocalLog, command: str) -> None:
    error = refused(checkpoint_of("another"), log, command)
    assert "is of query another, the log at" in error.what
    assert "TPC_LOG" in error.remedy
    assert [path.name for path in Path("checkpoint").iterdir()] == ["metadata"]


def test_a_log_of_a_service_goes_with_no_checkpoint_of_a_query(tmp_path: Path, log: LocalLog) -> None:
    error = refused(checkpoint_of("q"), begun(LocalLog(tmp_path / "service"), NO_QUERY), "resolve")
    assert "is of query q, the log at" in error.what


@pytest.mark.parametrize("query_id", ["q", None], ids=["its own", "lost"])
def test_a_checkpoint_of_the_log_s_query_or_without_its_metadata_is_taken(log: LocalLog, query_id: str | None) -> None:
    assert resolved(checkpoint_of(query_id), log).exit_code == 0


def test_the_directory_of_a_service_is_taken_with_its_log(tmp_path: Path, log: LocalLog) -> None:
    assert resolved(checkpoint_of(None), begun(LocalLog(tmp_path / "service"), NO_QUERY)).exit_code == 0


def test_a_checkpoint_named_by_a_file_url_is_that_directory(log: LocalLog, tmp_path: Path) -> None:
    assert resolved(f"file://{tmp_path}/{checkpoint_of('q')}", log).exit_code == 0
    assert Path("checkpoint", "tpc", "lock").exists()


def test_a_job_whose_checkpoint_is_lost_is_decided_on(
    log: LocalLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    Path("job_of_lost.py").write_text("import tpc\n\njob = tpc.pipeline('job', checkpoint='lost')\n")
    assert resolved("job_of_lost:job", log).exit_code == 0


def test_a_checkpoint_elsewhere_is_not_looked_for(
    log: LocalLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TPC_NOTES", str(tmp_path / "notes"))
    assert resolved("hdfs://host/orders", log).exit_code == 0
