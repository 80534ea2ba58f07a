"""`tpc doctor`: versions, Java, the log, and what each sink's server tells; 1 when there is a problem."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tpc
from tests.core.builders import generation_body
from tests.support.feed import Feed
from tests.support.postgres_database import PostgresDatabase
from tpc.__main__ import app
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations.commands.doctor import PACKAGES, job
from tpc.coordinator.spark.pipeline import LOG_FOLDER, Pipeline
from tpc.findings import Finding, Level
from tpc.records import RecordKind
from tpc.sinks import FileSink, PostgresSink

RUNNER = CliRunner()


def shown(*arguments: object, exit_code: int = 0) -> str:
    result = RUNNER.invoke(app, ["doctor", *map(str, arguments)])
    assert result.exit_code == exit_code, result.output
    return result.output


def found(pipeline: Pipeline) -> dict[str, Finding]:
    return {finding.about: finding for finding in job(pipeline)}


def test_without_an_argument_it_tells_versions_and_java() -> None:
    told: list[dict[str, Any]] = json.loads(shown("--json"))
    assert [one["about"] for one in told] == ["Python", *PACKAGES, "Java"]
    assert {one["level"] for one in told} == {"ok"}


def test_a_missing_java_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "problem: Java: " in shown(exit_code=1)


def test_a_damaged_log_is_a_problem(tmp_path: Path) -> None:
    log = LocalLog(tmp_path / LOG_FOLDER)
    Journal(log).append(RecordKind.GENERATION, generation_body(1))
    assert "is whole" in shown(tmp_path)
    Path(log.where(1)).write_bytes(b"torn")
    assert "problem: log: damaged: " in shown(tmp_path, exit_code=1)


def test_a_place_without_a_log_is_a_problem(tmp_path: Path) -> None:
    assert f"problem: {tmp_path}: no intent log" in shown(tmp_path, exit_code=1)


def test_every_sink_of_a_job_is_asked_and_one_that_is_away_hides_no_other(
    spark: SparkSession, postgres: PostgresDatabase, tmp_path: Path
) -> None:
    rows = Feed(tmp_path / "feed").frame(spark)
    pipeline = tpc.pipeline("job", checkpoint=tmp_path / "checkpoint")
    away = PostgresSink("t", name="away", dsn="host=127.0.0.1 port=1 user=u password=hidden dbname=d", timeout_s=2)
    here = PostgresSink("t", name="here", dsn=postgres.dsn)
    pipeline.write(rows).to(away).to(here).to(FileSink(str(tmp_path / "files"), name="files"))
    told = found(pipeline)
    assert told["sink away"].level is Level.PROBLEM
    assert "hidden" not in repr(told)
    assert told["sink here: max_prepared_transactions"].level is Level.OK
    assert told["sink files"].level is Level.OK
    assert told["log"].seen.startswith("none yet")
    assert not (tmp_path / "checkpoint").exists()
