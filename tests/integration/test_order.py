"""Rows of one key reach Kafka, PostgreSQL and files in the order that is asked for, through a shuffle that has none."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import tpc
from tests.support.kafka_topics import KafkaTopics
from tests.support.postgres_database import PostgresDatabase
from tpc.sinks import FileSink, KafkaSink, PostgresSink
from tpc.sinks.files import committed_paths

KEYS = ("a", "b", "c", "d", "e")
ROWS = 600
LAST = ROWS // len(KEYS)

Numbers = dict[str, list[int]]
"""Per key the numbers of its rows, in the order in which a reader meets them."""


def source(root: Path) -> Path:
    """One epoch: in its first file the newer half of every key's rows, each file the newest first."""
    rows = [{"key": KEYS[n % len(KEYS)], "number": n // len(KEYS)} for n in reversed(range(ROWS))]
    for name, half in (("0", rows[: ROWS // 2]), ("1", rows[ROWS // 2 :])):
        (root / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in half))
    return root


def met(rows: Iterable[tuple[str, int]]) -> Numbers:
    numbers: Numbers = defaultdict(list)
    for key, number in rows:
        numbers[key].append(number)
    return dict(numbers)


@pytest.mark.parametrize("asked", [True, False], ids=["order_by", "without"])
def test_rows_of_one_key_keep_the_order_that_is_asked_for(
    asked: bool, tmp_path: Path, spark: SparkSession, kafka: KafkaTopics, postgres: PostgresDatabase
) -> None:
    topic, root = kafka.topic(partitions=2), tmp_path / "source"
    root.mkdir()
    postgres.execute("CREATE TABLE numbers (place bigserial, key text, number bigint)")
    frame = spark.readStream.schema("key string, number long").json(str(source(root)))
    pipeline = tpc.pipeline(kafka.name("job"), checkpoint=tmp_path / "checkpoint")
    writing = pipeline.write(frame, partition_by="key", order_by="number" if asked else ())
    writing.to(KafkaSink(topic, servers=kafka.bootstrap), select=["key", F.to_json(F.struct("number")).alias("value")])
    writing.to(PostgresSink("numbers", dsn=postgres.dsn))
    writing.to(FileSink(str(tmp_path / "files"), format="json"))
    assert pipeline.start(trigger={"availableNow": True}).awaitTermination(120)

    lines = [line for path in committed_paths(tmp_path / "files") for line in Path(path).read_text().splitlines()]
    found = {
        "kafka": met((m.key().decode(), json.loads(m.value())["number"]) for m in kafka.read(topic)),
        "postgres": met(postgres.execute("SELECT key, number FROM numbers ORDER BY place")),
        "files": met((row["key"], row["number"]) for row in map(json.loads, lines)),
    }
    in_order = {key: list(range(LAST)) for key in KEYS}
    for system, numbers in found.items():
        assert {key: sorted(each) for key, each in numbers.items()} == in_order, system
        assert (numbers == in_order) is asked, system


def numbered(key: tuple[str], batches: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Each key's rows with the numbers that they have in its state, in no order."""
    (count,) = state.getOption or (0,)
    rows = sum(len(batch) for batch in batches)
    state.update((count + rows,))
    yield pd.DataFrame({"key": key[0], "number": range(count + rows - 1, count - 1, -1)})


def test_rows_of_a_state_function_are_ordered_as_they_come(tmp_path: Path, spark: SparkSession) -> None:
    """PySpark 4.0 cannot shuffle these as they are."""
    root = tmp_path / "source"
    root.mkdir()
    frame = spark.readStream.schema("key string, number long").json(str(source(root)))
    counted = frame.groupBy("key").applyInPandasWithState(
        numbered, "key string, number long", "count long", "append", GroupStateTimeout.NoTimeout
    )
    pipeline = tpc.pipeline("numbered", checkpoint=tmp_path / "checkpoint")
    pipeline.write(counted, partition_by="key", order_by="number").to(FileSink(str(tmp_path / "files"), format="json"))
    assert pipeline.start(trigger={"availableNow": True}).awaitTermination(120)
    lines = [line for path in committed_paths(tmp_path / "files") for line in Path(path).read_text().splitlines()]
    found = met((row["key"], row["number"]) for row in map(json.loads, lines))
    assert found == {key: list(range(LAST)) for key in KEYS}
