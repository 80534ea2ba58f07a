"""The conformance kit on the sink of source offsets: its readers are those who ask for the group's offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sinks.kafka.kit import KafkaKit
from tests.support.kafka_branches import offsets_of
from tests.support.kafka_topics import KafkaTopics
from tpc.chaos.servers.kafka import KafkaServer
from tpc.sink import Sink
from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
from tpc.sinks.kafka.offsets.writer import SCHEMA

ROWS_AT_MOST = 150
"""Of a branch; each row is an offset of a partition of its own, and a later branch of a test may have it again."""
PARTITIONS = ROWS_AT_MOST + 1


class TestKafkaOffsetsSink(KafkaKit):
    schema = SCHEMA
    keyed = "partition"
    large_branch_rows = death_rows = ROWS_AT_MOST
    required_columns = tuple(SCHEMA.names)
    has_no_types = "the coordinator makes the rows itself"
    is_alone = "nobody else commits offsets to the group of a pipeline: `check` asks that it has no members"
    takes_every_row = "the rows are offsets up to which Spark has read: none of them is to be refused"

    @pytest.fixture(scope="class")
    @classmethod
    def topic_name(cls, server: KafkaServer) -> str:
        """One topic for all tests, since it has many partitions; each test has a group of its own."""
        return KafkaTopics(server.bootstrap).topic(partitions=PARTITIONS)

    def make_sink(self, tmp_path: Path, name: str = "a") -> KafkaOffsetsSink:
        group = f"group-of-{self.pipeline_name}"
        return KafkaOffsetsSink(
            group, servers=self.kafka.bootstrap, name=name, client=self.client, timeout_s=self.timeout_s
        )

    def row(self, number: int) -> dict[str, Any]:
        return {"topic": self.topic, "partition": number % PARTITIONS, "offset": 1_000 + number}

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        assert isinstance(sink, KafkaOffsetsSink)
        self.wait_until_ended()
        found = offsets_of(sink)
        return [{"topic": each.topic, "partition": each.partition, "offset": each.offset} for each in found]
