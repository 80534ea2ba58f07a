"""`tpc check`: what a start would refuse, in the same words, with no query started and no record put."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
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
from tpc.coordinator.operations import actions
from tpc.coordinator.spark.pipeline import LOG_FOLDER, Pipeline
from tpc.errors import ConfigurationError, HistoryMismatchError, SchemaChangedError, TpcError
from tpc.handles import PipelineId
from tpc.records import RecordKind
from tpc.sink import Owner, Sink
from tpc.sinks import FileSink, PostgresSink


class Job:
    """Rows of a feed into JSON files, or into other sinks."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.spark = spark
        self.feed = Feed(root / "feed")
        self.checkpoint = root / "checkpoint"
        self.files = FileSink(str(root / "files"), name="archive", format="json")

    def pipeline(self, *columns: str, sink: Sink | None = None, name: str = "job") -> Pipeline:
        pipeline = tpc.pipeline(name, checkpoint=self.checkpoint)
        frame = self.feed.frame(self.spark).selectExpr(*(columns or ("id", "value")))
        pipeline.write(frame).to(sink or self.files)
        return pipeline

    def run(self) -> None:
        self.feed.epochs(1)
        assert self.pipeline().start(trigger={"availableNow": True}).awaitTermination(120)

    @property
    def log(self) -> LocalLog:
        return LocalLog(self.checkpoint / LOG_FOLDER)


@pytest.fixture
def job(tmp_path: Path, spark: SparkSession) -> Job:
    return Job(tmp_path, spark)


def refused(pipeline: Pipeline, kind: type[TpcError] = ConfigurationError) -> TpcError:
    """What the check says; a start says the same."""
    with pytest.raises(kind) as checked:
        actions.check(pipeline)
    with pytest.raises(kind) as started:
        pipeline.start(trigger={"availableNow": True})
    assert checked.value.what == started.value.what
    assert checked.value.safe
    return checked.value


def test_a_pipeline_that_has_never_run_may_start(job: Job) -> None:
    actions.check(job.pipeline())
    assert job.log.slots() == []
    assert not job.checkpoint.exists()


def test_a_pipeline_that_has_run_may_start_again_and_its_log_stays(job: Job) -> None:
    job.run()
    before = {slot: job.log.read(slot) for slot in job.log.slots()}
    actions.check(job.pipeline())
    assert {slot: job.log.read(slot) for slot in job.log.slots()} == before


def test_a_start_says_in_one_line_that_it_is_recovered_and_ready(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        job.run()
    assert caplog.text.count("pipeline job#1 is recovered and ready: generation 1, next epoch 0") == 1
    caplog.clear()
    with caplog.at_level(logging.INFO):
        job.run()
    assert caplog.text.count("is recovered and ready: generation 2, next epoch 1") == 1


def test_every_refusal_is_told_the_one_at_which_a_check_stops_first(job: Job, tmp_path: Path) -> None:
    job.run()
    (tmp_path / "files").rename(tmp_path / "not mounted")
    pipeline = job.pipeline("id", "cast(value AS string) value")
    pipeline.write(job.feed.frame(job.spark)).to(away := PostgresSink("t", dsn="host=127.0.0.1 port=1", timeout_s=1))
    found = actions.refusals(pipeline)
    with pytest.raises(ConfigurationError) as first:
        actions.check(pipeline)
    assert found[0].what == first.value.what
    assert {"archive", away.name} <= {error.sink for error in found}
    assert {"SourcesChangedError", "SchemaChangedError"} <= {type(error).__name__ for error in found}


def test_a_pipeline_that_writes_nothing_is_refused(job: Job) -> None:
    assert refused(tpc.pipeline("job", checkpoint=job.checkpoint)).what == "the pipeline writes nothing"


def test_a_variable_that_is_not_set_is_named(job: Job) -> None:
    sink = PostgresSink("t", dsn=tpc.env("TPC_NO_SUCH_DSN"))
    assert "TPC_NO_SUCH_DSN is not set" in refused(job.pipeline(sink=sink)).what


def test_a_server_that_is_away_is_told(job: Job) -> None:
    sink = PostgresSink("t", dsn="host=127.0.0.1 port=1 user=u password=hidden dbname=d", timeout_s=2)
    error = refused(job.pipeline(sink=sink))
    assert "cannot be reached" in error.what
    assert "hidden" not in str(error)


def test_a_table_without_a_column_of_the_rows_is_refused(job: Job, postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint)")
    assert "has no column 'value'" in refused(job.pipeline(sink=PostgresSink("t", dsn=postgres.dsn))).what


def test_a_log_of_another_pipeline_is_refused(job: Job) -> None:
    job.run()
    assert "belongs to pipeline job#1, not to other#1" in refused(job.pipeline(name="other")).what


def test_rows_with_other_columns_are_refused(job: Job) -> None:
    job.run()
    refused(job.pipeline("id", "cast(value AS string) value"), SchemaChangedError)


def test_a_sink_that_is_left_out_is_refused(job: Job, tmp_path: Path) -> None:
    job.run()
    other = FileSink(str(tmp_path / "others"), name="others", format="json")
    assert "'archive' is not part of the pipeline any more" in refused(job.pipeline(sink=other)).what


def test_a_lost_log_is_not_an_empty_one(job: Job) -> None:
    job.run()
    for slot in job.log.slots():
        Path(job.log.where(slot)).unlink()
    refused(job.pipeline(), HistoryMismatchError)


def test_a_sink_that_another_log_s_coordinator_has_owned_is_told(job: Job) -> None:
    job.run()
    committer = job.files.committer(PipelineId("job"))
    owner = committer.owner()
    assert committer.take_ownership(Owner(7, "another log's", 0.0), owner)
    with pytest.raises(HistoryMismatchError, match="owned by generation 7 of a log that is not this one"):
        actions.check(job.pipeline())


@pytest.fixture
def loaded(job: Job) -> Iterator[Job]:
    """The pipeline can be loaded as `checked_job:pipeline`."""
    module: Any = ModuleType("checked_job")
    module.pipeline = job.pipeline
    sys.modules["checked_job"] = module
    yield job
    del sys.modules["checked_job"]


def test_the_command_says_that_nothing_is_refused(loaded: Job) -> None:
    result = CliRunner().invoke(app, ["check", "checked_job:pipeline"])
    assert result.exit_code == 0, result.output
    assert result.output == "OK: a start would refuse nothing of settings, plan, log and sinks\n"


def test_the_command_tells_a_refusal_as_data_and_ends_with_1(loaded: Job) -> None:
    Journal(loaded.log).append(RecordKind.GENERATION, generation_body(1, pipeline="other"))
    result = CliRunner().invoke(app, ["check", "checked_job:pipeline", "--json"])
    assert result.exit_code == 1
    told = json.loads(result.output)
    assert (told["starts"], told["refusal"]["error"]) == (False, "ConfigurationError")
    assert "belongs to pipeline other#1" in told["refusal"]["what"]
    assert told["refusal"]["remedy"]
