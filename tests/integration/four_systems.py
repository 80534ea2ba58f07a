"""One pipeline from a Kafka topic into all four systems, that a test can feed, kill, start again and check."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tpc
from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase
from tpc import failpoints
from tpc.chaos.checkers.kafka_content import group_lag
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.coordinator.spark.query import PipelineQuery
from tpc.handles import DRIVER_PARTITION
from tpc.sink import Sink
from tpc.sinks import FileSink, KafkaOffsetsSink, KafkaSink, MongoSink, PostgresSink
from tpc.sinks.files import committed_files

ALL = ("kafka", "rows", "tallies", "airports", "files")
SCHEMA = "id long, carrier string, delay long, at timestamp"


class Dead(Exception):  # noqa: N818  no error: it is what the test does
    """Stands for the end of the process: nobody of ours handles it."""


def die(step: str, where: Mapping[str, Any]) -> None:
    raise Dead(step)


def exit_worker(step: str, where: Mapping[str, Any]) -> None:
    if where["partition"] == DRIVER_PARTITION:  # a gathered sink has no branch in a worker
        raise Dead(step)
    os._exit(9)


@dataclass
class Systems:
    """The corner of each real system that belongs to one test."""

    kafka: KafkaTopics
    postgres: PostgresDatabase
    mongo: MongoDatabase
    root: Path
    spark: SparkSession


class FourSystemsJob:
    """The pipeline with those of the sinks in `chosen`."""

    def __init__(self, systems: Systems, chosen: Collection[str] = ALL, *, stateful: bool = False) -> None:
        self.systems = systems
        self.chosen = tuple(chosen)
        self.stateful = stateful
        self.name = systems.kafka.name("pipeline")
        self.source = systems.kafka.topic("in")
        self.target = systems.kafka.topic("out")
        self.group = systems.kafka.name("group")
        self.files = systems.root / "files"
        self.checkpoint = systems.root / "checkpoint"
        self.fed: list[dict[str, Any]] = []
        self.kafka_settings: dict[str, Any] = {}
        self.dsn: str | tpc.Env = systems.postgres.dsn
        systems.postgres.execute("CREATE TABLE rows (id bigint PRIMARY KEY, carrier text, delay bigint)")
        systems.postgres.execute("CREATE TABLE tallies (carrier text PRIMARY KEY, n bigint, delay bigint)")

    # Running ---------------------------------------------------------------------------------------------------

    def sinks(self) -> dict[str, Sink]:
        systems = self.systems
        adds = {"n": "add", "delay": "add"}
        dsn = self.dsn
        return {
            "kafka": KafkaSink(self.target, servers=systems.kafka.bootstrap, name="kafka", **self.kafka_settings),
            "rows": PostgresSink("rows", dsn=dsn, name="rows"),
            "tallies": PostgresSink("tallies", dsn=dsn, name="tallies", key="carrier", merge=adds),
            "airports": MongoSink(
                "airports", uri=systems.mongo.uri, database=systems.mongo.name, name="airports", key="_id", merge=adds
            ),
            "files": FileSink(str(self.files), name="files"),
        }

    def frame(self) -> DataFrame:
        reader = (
            self.systems.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.systems.kafka.bootstrap)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", self.source)
            .option("startingOffsets", "earliest")
        )
        rows = reader.load().select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("m")).select("m.*")
        return rows.withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["id"]) if self.stateful else rows

    def pipeline(self) -> Pipeline:
        tally = [F.lit(1).cast("long").alias("n"), "delay"]
        row = ["id", "carrier", "delay"]
        selects: dict[str, list[Any]] = {
            "kafka": [F.col("id").cast("string").alias("key"), *row],
            "rows": row,
            "tallies": ["carrier", *tally],
            "airports": [F.col("carrier").alias("_id"), *tally],
            "files": row,
        }
        pipeline = tpc.pipeline(self.name, checkpoint=self.checkpoint)
        writing = pipeline.write(self.frame())
        sinks = self.sinks()
        for name in self.chosen:
            writing.to(sinks[name], select=selects[name])
        if "kafka" in self.chosen:
            pipeline.offsets_to(KafkaOffsetsSink(self.group, servers=self.systems.kafka.bootstrap, name="offsets"))
        return pipeline

    def feed(self, count: int = 20, **fixed: Any) -> None:
        """`count` more messages with ids that go on."""
        first = len(self.fed)
        rows = [
            {"id": i, "carrier": f"C{i % 4}", "delay": i % 11 - 3, "at": f"2026-01-01T{first // 60 % 24:02d}:00:00Z"}
            | fixed
            for i in range(first, first + count)
        ]
        self.systems.kafka.produce(self.source, [(str(row["id"]), json.dumps(row)) for row in rows])
        self.fed += rows

    def start(self) -> PipelineQuery:
        return self.pipeline().start(trigger={"availableNow": True})

    def run(self) -> PipelineQuery:
        query = self.start()
        assert query.awaitTermination(120), "the query did not end in 120 s"
        return query

    def run_with(
        self, actions: Mapping[str, failpoints.Action], expected: type[Exception], match: str | None = None
    ) -> Any:
        """Run with these actions at the steps of the protocol; what must end the run."""
        failpoints.install(actions)
        try:
            with pytest.raises(expected, match=match) as caught:
                self.run()
        finally:
            failpoints.install({})
        return caught.value

    # Reading ---------------------------------------------------------------------------------------------------

    def in_kafka(self) -> Counter[int]:
        return Counter(json.loads(message.value())["id"] for message in self.systems.kafka.read(self.target))

    def in_postgres(self) -> Counter[int]:
        return Counter(i for (i,) in self.systems.postgres.execute("SELECT id FROM rows"))

    def in_files(self) -> Counter[int]:
        return Counter(i for file in committed_files(self.files) for i in pq.read_table(file.path)["id"].to_pylist())

    def tallies(self) -> dict[str, tuple[int, int]]:
        rows = self.systems.postgres.execute("SELECT carrier, n, delay FROM tallies")
        return {carrier: (int(n), int(delay)) for carrier, n, delay in rows}

    def airports(self) -> dict[str, tuple[int, int]]:
        found = self.systems.mongo.db["airports"].find()
        return {document["_id"]: (document["n"], document["delay"]) for document in found}

    def expected_tallies(self) -> dict[str, tuple[int, int]]:
        tallies: dict[str, tuple[int, int]] = {}
        for row in self.fed:
            n, delay = tallies.get(row["carrier"], (0, 0))
            tallies[row["carrier"]] = (n + 1, delay + row["delay"])
        return tallies

    def ongoing(self) -> list[str]:
        """The transactions of this pipeline that are open in Kafka."""
        return self.systems.kafka.ongoing(f"tpc~{self.name}~")

    def in_doubt(self) -> list[str]:
        """What any system still holds that nobody has decided."""
        systems = self.systems
        outbox = [str(document["_id"]) for document in systems.mongo.db["tpc_outbox"].find({}, {"_id": 1})]
        staging = self.files / "_tpc" / "staging"
        staged = [path.name for path in staging.glob("*")] if staging.exists() else []
        return [*self.ongoing(), *systems.postgres.in_doubt(), *outbox, *staged]

    def group_offsets(self) -> int:
        """How many messages lag tools see as consumed."""
        lag = group_lag(self.systems.kafka.bootstrap, self.group, (self.source,))
        return sum(offset or 0 for offset, _ in lag.values())

    def check(self) -> None:
        """Every message fed is in every chosen system exactly once, and nothing is in doubt."""
        ids = Counter(row["id"] for row in self.fed)
        found: dict[str, Any] = {
            "kafka": self.in_kafka,
            "rows": self.in_postgres,
            "tallies": self.tallies,
            "airports": self.airports,
            "files": self.in_files,
        }
        expected: dict[str, Any] = dict.fromkeys(ALL, ids) | dict.fromkeys(
            ("tallies", "airports"), self.expected_tallies()
        )
        assert {name: found[name]() for name in self.chosen} == {name: expected[name] for name in self.chosen}
        assert self.in_doubt() == []
        if "kafka" in self.chosen:
            assert self.group_offsets() == len(self.fed)
