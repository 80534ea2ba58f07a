"""A pipeline on real Spark whose rows have other columns after a restart, into files that would take any."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import tpc
from tests.core.builders import generation_body, intent, manifest
from tests.support.feed import Feed
from tpc.__main__ import app
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations.commands.acceptance import accept_schema
from tpc.coordinator.spark.pipeline import LOG_FOLDER, Pipeline
from tpc.errors import ConfigurationError, SchemaChangedError
from tpc.records import RecordKind
from tpc.sinks import FileSink
from tpc.sinks.files import committed_paths


class Job:
    """Rows of a feed into JSON files."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.spark = spark
        self.feed = Feed(root / "feed")
        self.checkpoint = root / "checkpoint"
        self.files = root / "files"

    def pipeline(self, select: Sequence[str]) -> Pipeline:
        pipeline = tpc.pipeline("job", checkpoint=self.checkpoint)
        frame = self.feed.frame(self.spark).selectExpr(*select)
        pipeline.write(frame).to(FileSink(str(self.files), name="archive", format="json"))
        return pipeline

    def run(self, *select: str) -> None:
        assert self.pipeline(select).start(trigger={"availableNow": True}).awaitTermination(120)

    def values(self) -> list[Any]:
        lines = [line for path in committed_paths(self.files) for line in Path(path).read_text().splitlines()]
        return [json.loads(line)["value"] for line in lines]

    def slots(self) -> list[int]:
        return LocalLog(self.checkpoint / LOG_FOLDER).slots()


def test_a_changed_type_is_refused_before_anything_is_written_until_it_is_accepted(
    tmp_path: Path, spark: SparkSession
) -> None:
    job = Job(tmp_path, spark)
    job.feed.epochs(1, rows=2)
    job.run("id", "value")
    assert {type(value) for value in job.values()} == {int}

    job.feed.epochs(1, rows=1)
    before = job.slots()
    with pytest.raises(SchemaChangedError, match="'value' was bigint and is string") as raised:
        job.run("id", "CAST(value AS string) AS value")
    assert raised.value.sink == "archive"
    assert (job.slots(), len(job.values())) == (before, 2)

    told = CliRunner().invoke(
        app, ["accept-schema", str(job.checkpoint), "--sink", "archive", "--reason", "all read both"]
    )
    assert told.exit_code == 0, told.output
    job.run("id", "CAST(value AS string) AS value")
    assert {type(value) for value in job.values()} == {int, str}
    with pytest.raises(SchemaChangedError, match="'value' was string and is bigint"):
        job.run("id", "value")
    pipeline = job.pipeline(["id", "value"])
    accept_schema(pipeline.log, LocalCheckpoint(job.checkpoint), "archive", pipeline.columns()["archive"], "back again")
    job.run("id", "value")


# What cannot be accepted -------------------------------------------------------------------------------------------


def log_of(place: Path, *records: Any) -> LocalLog:
    journal = Journal(LocalLog(place / LOG_FOLDER))
    body = generation_body(1, schemas={"a": [["id", "bigint"]]})
    for kind, content in ((RecordKind.GENERATION, body), *records):
        journal.append(kind, content)
    return LocalLog(place / LOG_FOLDER)


@pytest.mark.parametrize(
    ("sink", "columns", "what"),
    [("b", None, "no columns are on record for sink 'b'"), ("a", (("id", "bigint"),), "on record already")],
)
def test_there_must_be_a_change_to_accept(tmp_path: Path, sink: str, columns: Any, what: str) -> None:
    log = log_of(tmp_path)
    with pytest.raises(ConfigurationError, match=what):
        accept_schema(log, LocalCheckpoint(tmp_path), sink, columns, "why not")
    assert log.slots() == [1]


def test_a_decided_epoch_is_finished_with_the_columns_that_it_had(tmp_path: Path) -> None:
    log = log_of(tmp_path, intent(manifest(0)))
    with pytest.raises(ConfigurationError, match="epoch 0 is decided and not complete"):
        accept_schema(log, LocalCheckpoint(tmp_path), "a", None, "why not")
    assert log.slots() == [1, 2]


def test_with_a_pipeline_its_columns_are_accepted_and_no_others(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    accept_schema(log, LocalCheckpoint(tmp_path), "a", (("id", "string"),), "wider now")
    assert Journal(log).open().schemas == {"a": (("id", "string"),)}
