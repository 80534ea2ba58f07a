"""A program whose state gets another schema between two lives: what Spark converts, and what is refused by name."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.coordinator.spark.counted import (
    COLLECTED,
    COLLECTED_AND_NAMED,
    COLLECTED_AS_TEXT,
    COUNTED,
    COUNTED_AND_NAMED,
    COUNTED_AS_TEXT,
    COUNTED_LONGER,
    ENCODING,
    Schema,
    is_killed_at,
    live,
    program,
)
from tests.support.folder_sink import FolderSink
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.state_partitions import SETTING, state_partitions
from tpc.errors import ConfigurationError, DeterminismError

pytestmark = pytest.mark.spark

BEFORE_THE_INTENT = ("epoch.prepared",)
AFTER_THE_INTENT = ("epoch.decided", "sink.committed")
NEWER = pytest.mark.parametrize(
    ("schema", "newer"),
    [(COUNTED, COUNTED_AND_NAMED), (COLLECTED, COLLECTED_AND_NAMED)],
    ids=["value", "list and map"],
)


@pytest.fixture(autouse=True)
def as_it_was(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(ENCODING)


def out(place: Path) -> list[tuple[int, str]]:
    return sorted((row["id"], row["last"]) for row in FolderSink("rows", place / "rows").rows())


@NEWER
@pytest.mark.parametrize("step", BEFORE_THE_INTENT)
def test_avro_state_is_read_with_a_newer_schema_also_after_a_kill_before_the_intent(
    step: str, schema: Schema, newer: Schema, spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set(ENCODING, "avro")
    live(program(spark, tmp_path, schema))
    is_killed_at(step, tmp_path, schema, **{ENCODING: "avro"})
    live(program(spark, tmp_path, newer))
    last = "n2" if isinstance(newer, str) else "n1,n2"  # a list tells all that came since its elements have names
    assert out(tmp_path) == [(1, ""), (2, "n1"), (3, last)]


@NEWER
@pytest.mark.parametrize("step", AFTER_THE_INTENT)
def test_a_decided_epoch_wants_the_program_that_decided_it_and_then_the_newer_schema_goes_on(
    step: str, schema: Schema, newer: Schema, spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set(ENCODING, "avro")
    live(program(spark, tmp_path, schema))
    is_killed_at(step, tmp_path, schema, **{ENCODING: "avro"})
    changed = program(spark, tmp_path, newer)
    with pytest.raises(DeterminismError):
        live(changed)
    live(program(spark, tmp_path, schema))
    live(program(spark, tmp_path, newer))
    assert out(tmp_path) == [(1, ""), (2, ""), (3, ""), (4, ""), (5, "n4")]


def test_as_avro_a_column_of_the_state_may_be_left_out(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set(ENCODING, "avro")
    live(program(spark, tmp_path, COUNTED_AND_NAMED))
    live(program(spark, tmp_path, COUNTED_LONGER))
    assert out(tmp_path) == [(1, "n0"), (2, "")]


@pytest.mark.parametrize(
    ("schema", "other"), [(COUNTED, COUNTED_AS_TEXT), (COLLECTED, COLLECTED_AS_TEXT)], ids=["value", "list"]
)
def test_as_avro_another_type_is_refused_and_the_old_program_goes_on(
    schema: Schema, other: Schema, spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set(ENCODING, "avro")
    live(program(spark, tmp_path, schema))
    with pytest.raises(ConfigurationError, match="another schema"):
        live(program(spark, tmp_path, other))
    live(program(spark, tmp_path, schema))
    assert out(tmp_path) == [(1, ""), (2, ""), (3, "")]


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
def test_a_life_that_was_killed_goes_on_in_a_session_with_another_number_of_partitions(
    step: str, spark: SparkSession, tmp_path: Path
) -> None:
    live(program(spark, tmp_path, COUNTED))
    is_killed_at(step, tmp_path, COUNTED)
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
