"""Where the jobs of the regression tests write: a topic, a table, a collection and a directory, and what is in them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.kafka_topics import KafkaTopics
from tests.support.mongo_database import MongoDatabase
from tests.support.postgres_database import PostgresDatabase
from tpc.sink import Sink
from tpc.sinks import FileSink, KafkaSink, MongoSink, PostgresSink
from tpc.sinks.files import committed_files


def ids_in_kafka(kafka: KafkaTopics, topic: str) -> Counter[int]:
    """What a read_committed reader sees."""
    return Counter(json.loads(message.value())["id"] for message in kafka.read(topic))


def ids_in_postgres(postgres: PostgresDatabase, table: str) -> Counter[int]:
    return Counter(i for (i,) in postgres.execute(f"SELECT id FROM {table}"))


class Targets:
    """One target in each of the four systems, under a prefix of its own."""

    def __init__(
        self, kafka: KafkaTopics, postgres: PostgresDatabase, mongo: MongoDatabase, root: Path, prefix: str
    ) -> None:
        self.kafka, self.postgres, self.mongo = kafka, postgres, mongo
        self.name = prefix
        self.topic = kafka.topic(prefix)
        self.files = root / prefix
        postgres.execute(f"CREATE TABLE {prefix} (id bigint PRIMARY KEY, word text)")

    def sinks(self, **postgres_settings: Any) -> tuple[Sink, ...]:
        """All four."""
        return (
            KafkaSink(self.topic, servers=self.kafka.bootstrap, name="kafka"),
            PostgresSink(self.name, dsn=self.postgres.dsn, name="postgres", **postgres_settings),
            MongoSink(
                self.name,
                uri=self.mongo.uri,
                database=self.mongo.name,
                name="mongo",
                key="id",
                merge={"word": "keep"},
            ),
            FileSink(self.files, name="files"),
        )

    def shown(self) -> dict[str, Counter[int]]:
        """The ids that readers see, and how often."""
        files = (pq.read_table(file.path)["id"].to_pylist() for file in committed_files(self.files))
        return {
            "kafka": ids_in_kafka(self.kafka, self.topic),
            "postgres": ids_in_postgres(self.postgres, self.name),
            "mongo": Counter(document["_id"] for document in self.mongo.db[self.name].find()),
            "files": Counter(i for ids in files for i in ids),
        }

    @staticmethod
    def expected(ids: Iterable[int]) -> dict[str, Counter[int]]:
        """Each of `ids` once in each system."""
        once = Counter(ids)
        return dict.fromkeys(("kafka", "postgres", "mongo", "files"), once)

    def in_doubt(self, pipeline: str) -> list[str]:
        """What the systems hold of the pipeline that nobody has decided."""
        prefix = f"tpc~{pipeline}~"
        outbox = (str(document["_id"]) for document in self.mongo.db["tpc_outbox"].find({}, {"_id": 1}))
        staged = (path.name for path in (self.files / "_tpc" / "staging").glob("*"))
        listed = [*self.kafka.ongoing(prefix), *self.postgres.in_doubt(), *outbox, *staged]
        return [name for name in listed if prefix in name]
