"""A key lies in the partition where Java's clients, and so Spark's own Kafka sink, would have put it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.support.kafka_branches import Branches
from tests.support.kafka_topics import KafkaTopics
from tpc.sinks.kafka.sink import KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stack, pytest.mark.spark]

PARTITIONS = 7
SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def keys(count: int) -> list[bytes]:
    """Distinct keys of 0 to 40 bytes: none, text, and anything."""
    draw = random.Random(20)
    made = {b"", *(f"key-{number}".encode() for number in range(count // 2))}
    while len(made) < count:
        made.add(draw.randbytes(draw.randint(1, 40)))
    return sorted(made)


def placed(kafka: KafkaTopics, topic: str) -> dict[bytes, int]:
    return {message.key() or b"": message.partition() for message in kafka.read(topic)}


def test_keys_lie_where_spark_s_own_sink_puts_them(kafka: KafkaTopics, spark: SparkSession) -> None:
    rows = [{"key": key, "value": b"v"} for key in keys(10_000)]
    theirs, ours = (kafka.topic(word, partitions=PARTITIONS) for word in ("java", "ours"))
    (
        spark.createDataFrame(rows, "key binary, value binary")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap)
        .option("topic", theirs)
        .save()
    )
    branches = Branches(KafkaSink(ours, servers=kafka.bootstrap), kafka.name("pipeline"))
    branches.commit(branches.prepare(rows, schema=SCHEMA))
    by_java = placed(kafka, theirs)
    assert len(by_java) == 10_000
    assert set(by_java.values()) == set(range(PARTITIONS))
    assert placed(kafka, ours) == by_java


def test_an_empty_key_always_lies_in_one_partition(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=PARTITIONS)
    branches = Branches(KafkaSink(topic, servers=kafka.bootstrap), kafka.name("pipeline"))
    branches.commit(branches.prepare([{"key": b"", "value": b"v"}] * 200, schema=SCHEMA))
    assert len({message.partition() for message in kafka.read(topic)}) == 1
