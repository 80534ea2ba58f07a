"""A program whose state gets another schema between two lives: what Spark converts, and what is refused by name."""
# ruff: noqa: N803  the names of Spark's interface

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import tpc
from tests.support.folder_sink import FolderSink
from tpc import failpoints
from tpc.coordinator.pipeline import Pipeline
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.state_partitions import SETTING, state_partitions
from tpc.errors import ConfigurationError, DeterminismError

pytestmark = pytest.mark.spark

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
COUNTED = "rows int"
COUNTED_AND_NAMED = "rows long, last string"
BEFORE_THE_INTENT = ("epoch.prepared",)
AFTER_THE_INTENT = ("epoch.decided", "sink.committed")


class Counter(StatefulProcessor):
    """Counts rows per key; with the newer schema it also says which came last."""

    def __init__(self, schema: str) -> None:
        self.schema = schema

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("counted", self.schema)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        last = [name for batch in rows for name in batch["name"]]
        counted = self.state.get()
        before = 0 if counted is None else counted[0]
        value = (before + len(last), max(last))
        self.state.update(value if self.schema == COUNTED_AND_NAMED else value[:1])
        told = "" if self.schema == COUNTED else value[1]
        yield pd.DataFrame({"id": [value[0]], "last": [told]})

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture(autouse=True)
def as_it_was(spark: SparkSession) -> Iterator[None]:
    yield
    failpoints.install({})
    spark.conf.unset(ENCODING)


def program(spark: SparkSession, place: Path, schema: str) -> Pipeline:
    """With one more row of input."""
    source = place / "input"
    source.mkdir(exist_ok=True)
    number = len(list(source.iterdir()))
    (source / f"{number}.json").write_text(json.dumps({"key": "a", "name": f"n{number}"}) + "\n")
    rows = spark.readStream.schema("key string, name string").option("maxFilesPerTrigger", 1).json(str(source))
    counted = rows.groupBy("key").transformWithStateInPandas(Counter(schema), "id long, last string", "append", "none")
    made = tpc.pipeline("counted", checkpoint=place / "checkpoint")
    made.write(counted).to(FolderSink("rows", place / "rows"))
    return made


def live(made: Pipeline) -> None:
    made.start(trigger={"availableNow": True}).awaitTermination(180)


def out(place: Path) -> list[tuple[int, str]]:
    return sorted((row["id"], row["last"]) for row in FolderSink("rows", place / "rows").rows())


def die(_step: str, _where: Mapping[str, Any]) -> None:
    raise DeathError


class DeathError(Exception):
    """The end of a life."""


def dies_at(step: str, made: Pipeline) -> None:
    failpoints.install({step: die})
    with pytest.raises(DeathError):
        live(made)
    failpoints.install({})


@pytest.mark.parametrize("step", BEFORE_THE_INTENT)
def test_as_avro_the_state_is_read_under_a_newer_schema_though_a_life_died_before_its_intent(
    step: str, spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set(ENCODING, "avro")
    live(program(spark, tmp_path, COUNTED))
    dies_at(step, program(spark, tmp_path, COUNTED))
    live(program(spark, tmp_path, COUNTED_AND_NAMED))
    assert out(tmp_path) == [(1, ""), (2, "n1"), (3, "n2")]


@pytest.mark.parametrize("step", AFTER_THE_INTENT)
def test_a_decided_epoch_wants_the_program_that_decided_it_and_then_the_newer_schema_goes_on(
    step: str, spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set(ENCODING, "avro")
    live(program(spark, tmp_path, COUNTED))
    dies_at(step, program(spark, tmp_path, COUNTED))
    changed = program(spark, tmp_path, COUNTED_AND_NAMED)
    with pytest.raises(DeterminismError):
        live(changed)
    live(program(spark, tmp_path, COUNTED))
    live(program(spark, tmp_path, COUNTED_AND_NAMED))
    assert out(tmp_path) == [(1, ""), (2, ""), (3, ""), (4, ""), (5, "n4")]


def test_otherwise_another_schema_is_refused_by_name_and_the_old_one_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    live(program(spark, tmp_path, COUNTED))
    with pytest.raises(ConfigurationError, match="another schema") as raised:
        live(program(spark, tmp_path, COUNTED_AND_NAMED))
    assert ENCODING in raised.value.remedy
    live(program(spark, tmp_path, COUNTED))
    assert out(tmp_path) == [(1, ""), (2, ""), (3, "")]


@pytest.mark.parametrize("step", BEFORE_THE_INTENT + AFTER_THE_INTENT)
def test_a_life_that_died_goes_on_in_a_session_with_another_number_of_partitions(
    step: str, spark: SparkSession, tmp_path: Path
) -> None:
    live(program(spark, tmp_path, COUNTED))
    dies_at(step, program(spark, tmp_path, COUNTED))
    known = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "3")
    try:
        live(program(spark, tmp_path, COUNTED))
    finally:
        spark.conf.set(SETTING, str(known))
    assert out(tmp_path) == [(1, ""), (2, ""), (3, "")]


def test_another_number_of_partitions_is_passed_over_and_told_with_the_way_out(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    live(program(spark, tmp_path, COUNTED))
    known = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "3")
    try:
        with caplog.at_level(logging.WARNING):
            live(program(spark, tmp_path, COUNTED))
    finally:
        spark.conf.set(SETTING, str(known))
    assert f"the state is cut into {known} partitions, and {SETTING}=3 is passed over" in caplog.text
    assert out(tmp_path) == [(1, ""), (2, "")]
    assert state_partitions(SparkLog(LocalFiles(tmp_path / "checkpoint"))) == int(known or 0)
