"""A table as the source of a pipeline, joined with Kafka: its position is the epoch's, and no secret is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tpc
from tests.sinks.postgres.source.tables import add, dsn_file, make_table
from tests.support.folder_sink import FolderSink
from tests.support.kafka_topics import KafkaTopics
from tests.support.postgres_database import PostgresDatabase
from tpc import failpoints
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.errors import ConfigurationError, SourcesChangedError
from tpc.sources import PostgresSource
from tpc.support.deadlines import patiently

pytestmark = pytest.mark.spark


class DeathError(Exception):
    """The end of a life, at a step."""


def die(_step: str, _where: Mapping[str, Any]) -> None:
    raise DeathError


@pytest.fixture
def orders(postgres: PostgresDatabase) -> PostgresDatabase:
    return make_table(postgres)


@pytest.fixture(autouse=True)
def no_failpoint_stays() -> Iterator[None]:
    yield
    failpoints.install({})


def source(orders: PostgresDatabase, place: Path, **options: object) -> PostgresSource:
    return PostgresSource("orders", dsn=tpc.secret_file(dsn_file(orders, place)), **options)  # type: ignore[arg-type]


def pipeline(frame: DataFrame, place: Path) -> Pipeline:
    made = tpc.pipeline("table", checkpoint=place / "checkpoint")
    made.write(frame).to(FolderSink("rows", place / "rows"), select=["id"])
    return made


def run(made: Pipeline) -> None:
    """A life; again when Spark has not waited for a Python process long enough, as on a busy machine."""
    patiently(lambda: made.start(trigger={"availableNow": True}).awaitTermination(120), 120)


def test_life_after_life_each_row_is_in_the_sink_once_and_the_position_in_the_manifest(
    orders: PostgresDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(3):
        add(orders, number)
        run(pipeline(source(orders, tmp_path).load(spark), tmp_path))
    assert FolderSink("rows", tmp_path / "rows").values("id") == {0: 1, 1: 1, 2: 1}
    (end,) = tpc.positions(tmp_path / "checkpoint").offsets
    assert isinstance(end, str)
    at = json.loads(end)
    newest = orders.execute("SELECT max(xid::text::bigint) FROM orders")[0][0]
    assert (at["table"], at["xid"] > newest) == (f"{orders.name}.public.orders", True)


@pytest.mark.parametrize("step", [pytest.param("epoch.prepared", marks=pytest.mark.slow), "epoch.decided"])
def test_joined_with_kafka_and_killed_within_an_epoch_each_row_comes_out_once(
    step: str, orders: PostgresDatabase, kafka: KafkaTopics, spark: SparkSession, tmp_path: Path
) -> None:
    topic = kafka.topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(20):
        producer.produce(topic, str(number).encode())
    producer.flush(30)
    add(orders, *range(10))
    paid = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(F.col("value").cast("string").cast("long").alias("paid"))
    )
    made = pipeline(source(orders, tmp_path).load(spark).join(paid, F.expr("id = paid")), tmp_path)
    failpoints.install({step: die})
    with pytest.raises(DeathError):
        run(made)
    failpoints.install({})
    add(orders, *range(10, 20))
    run(made)
    assert FolderSink("rows", tmp_path / "rows").values("id") == dict.fromkeys(range(20), 1)


def test_another_table_is_refused_at_the_start_by_name(
    orders: PostgresDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    add(orders, 1)
    run(pipeline(source(orders, tmp_path).load(spark), tmp_path))
    orders.execute("ALTER TABLE orders RENAME TO others")
    with pytest.raises(SourcesChangedError, match=r"is .* public\.others, and was .* public\.orders") as raised:
        run(pipeline(PostgresSource("others", dsn=tpc.secret_file(str(tmp_path / "dsn"))).load(spark), tmp_path))
    assert "tpc accept-sources" in raised.value.remedy


def test_neither_offsets_nor_plan_nor_log_show_the_dsn(
    orders: PostgresDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    add(orders, 1)
    frame = source(orders, tmp_path).load(spark)
    shown = str(frame._jdf.queryExecution().toString()) + repr(source(orders, tmp_path))
    run(pipeline(frame, tmp_path))
    checkpoint = tmp_path / "checkpoint"
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert files
    assert orders.dsn not in shown
    assert not [path for path in files if orders.dsn.encode() in path.read_bytes()]


def test_a_bound_of_rows_is_refused_with_a_trigger_that_asks_once(
    orders: PostgresDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="rows_per_epoch") as raised:
        run(pipeline(source(orders, tmp_path, rows_per_epoch=1).load(spark), tmp_path))
    assert "processingTime" in raised.value.remedy


def test_with_a_trigger_that_asks_again_epochs_have_so_many_rows_from_the_first_one_on(
    orders: PostgresDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    for number in range(4):
        add(orders, number)
    query = pipeline(source(orders, tmp_path, rows_per_epoch=2).load(spark), tmp_path).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    sink = FolderSink("rows", tmp_path / "rows")
    assert sorted((handle.epoch, len(rows)) for handle, rows in sink.branches()) == [(0, 2), (1, 2)]
