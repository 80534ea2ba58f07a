"""The kit of sources on Kafka's, with a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition

from tests.support.kafka_topics import DEADLINE_S, KafkaTopics
from tpc.source import Source
from tpc.sources import KafkaSource
from tpc.testing import SourceConformance

PARTITIONS = 3


def decode(message: Message) -> Any:
    return json.loads(message.value() or b"null")


class TestKafkaSource(SourceConformance):
    timeout_s = DEADLINE_S
    has_no_secrets = "the broker of the tests asks for no password"
    cannot_cut = "other tests use the same broker at the same time"

    @pytest.fixture(autouse=True)
    def broker(self, kafka: KafkaTopics) -> None:
        self.kafka = kafka
        self.topic = kafka.topic(partitions=PARTITIONS)

    def make_source(self) -> Source:
        return KafkaSource(self.topic, servers=self.kafka.bootstrap, decode=decode, name="numbers")

    def feed(self, numbers: Sequence[int]) -> None:
        self.kafka.produce(self.topic, [(None, json.dumps({"n": n}).encode(), n % PARTITIONS) for n in numbers])

    def number(self, event: Any) -> int:
        return int(event["n"])

    def lose(self) -> None:
        ends = [TopicPartition(self.topic, partition, -1) for partition in range(PARTITIONS)]
        for done in self.kafka.admin.delete_records(ends).values():
            done.result(DEADLINE_S)

    def recreate(self) -> None:
        self.kafka.recreate(self.topic, partitions=PARTITIONS)

    def spoil(self) -> None:
        self.kafka.produce(self.topic, [(None, b"{", 1)])

    def begin(self, numbers: Sequence[int]) -> Callable[[], None]:
        """A source reads what is committed, and no further than the first record of an open transaction."""
        name = self.kafka.name("writer")
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "transactional.id": name})
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for n in numbers:
            producer.produce(self.topic, json.dumps({"n": n}), partition=n % PARTITIONS)
        producer.flush(DEADLINE_S)
        return partial(producer.commit_transaction, DEADLINE_S)
