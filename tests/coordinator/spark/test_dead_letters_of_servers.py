"""Rows that a server's sink refuses, as dead letters of a pipeline: of Kafka and of MongoDB, with files beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import tpc
from tests.support.feed import Feed
from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tpc.sinks import FileSink, KafkaSink, MongoSink

pytestmark = pytest.mark.spark

NUMBERS = range(12)
LARGE_MESSAGE, LARGE_DOCUMENT, FINE_TIME, NO_KEY = 1, 4, 7, 10
ODD = {LARGE_MESSAGE: "topic", LARGE_DOCUMENT: "docs", FINE_TIME: "docs", NO_KEY: "docs"}
"""Which sink refuses which row."""
GOOD = [n for n in NUMBERS if n not in ODD]
TOPIC_TAKES_BYTES = 5_000


def rows(path: Path) -> list[dict[str, Any]]:
    return [row for file in path.glob("*.parquet") for row in pq.read_table(file).to_pylist()]


def is_of(number: int, value: str, otherwise: str) -> Column:
    return F.expr(f"CASE WHEN id = {number} THEN {value} ELSE {otherwise} END")


@pytest.mark.parametrize("settings", [{}, {"key": "_id", "merge": "replace", "order_by": "n"}], ids=["append", "merge"])
def test_what_a_topic_and_a_collection_refuse_goes_to_no_sink(
    settings: Mapping[str, Any], tmp_path: Path, spark: SparkSession, kafka: KafkaTopics, mongo: MongoDatabase
) -> None:
    # Of a merge two rows have each key: where the second one is refused the first one is in the collection.
    key = "id DIV 2" if settings else "id"
    topic = kafka.topic(partitions=1, max_message_bytes=str(TOPIC_TAKES_BYTES))
    feed = Feed(tmp_path / "feed")
    feed.epoch([{"id": n, "key": "k", "value": n, "event": "2026-01-01T00:00:00Z"} for n in NUMBERS])

    pipeline = tpc.pipeline(kafka.name("pipeline"), checkpoint=tmp_path / "checkpoint")
    # Several partitions, so that branches are prepared beside one that is refused.
    writing = pipeline.write(feed.frame(spark).repartition(2, "id"), name="main")
    writing.to(
        KafkaSink(topic, servers=kafka.bootstrap, name="topic", timeout_s=20),
        select=[
            F.col("id").cast("string").alias("key"),
            is_of(LARGE_MESSAGE, f"repeat('x', {TOPIC_TAKES_BYTES})", "'small'").alias("value"),
        ],
    )
    writing.to(
        MongoSink("docs", uri=mongo.uri, database=mongo.name, name="docs", timeout_s=20, **settings),
        select=[
            is_of(NO_KEY, "NULL", key).alias("_id"),
            F.col("id").alias("n"),
            is_of(FINE_TIME, "event + INTERVAL 1 MICROSECOND", "event").alias("at"),
            is_of(LARGE_DOCUMENT, "repeat('x', 17000000)", "'small'").alias("body"),
        ],
    )
    writing.to(FileSink(tmp_path / "all", name="all"), select=["id"])
    pipeline.dead_letters_to(FileSink(tmp_path / "dead", name="dead"), max_share=1.0)
    assert pipeline.start(trigger={"availableNow": True}).awaitTermination(240)

    assert sorted(int(message.key()) for message in kafka.read(topic)) == GOOD
    newest = {n // 2 if settings else n: n for n in GOOD}
    assert {each["_id"]: each["n"] for each in mongo.db["docs"].find()} == newest
    assert sorted(row["id"] for row in rows(tmp_path / "all")) == GOOD
    dead = [(row["sink"], json.loads(row["row"])) for row in rows(tmp_path / "dead")]
    assert sorted((int(row.get("key") or row.get("n")), sink) for sink, row in dead) == sorted(ODD.items())
