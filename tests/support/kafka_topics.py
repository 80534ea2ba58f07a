"""Topics of one test on a shared broker, with quick ways to fill and to read them."""

from __future__ import annotations

import itertools
import logging
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tpc.support.deadlines import patiently

DEADLINE_S = 20.0
# librdkafka's complaints about a broker that a test killed belong nowhere.
SILENT = logging.Logger("tests.silent", level=logging.CRITICAL + 1)


@dataclass
class KafkaTopics:
    """A broker's address and a name space of this test's own."""

    bootstrap: str
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:10]}")

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap}, logger=SILENT)
        self._numbers = itertools.count()

    def name(self, word: str = "topic") -> str:
        """A name nobody else has: for a topic that is not to exist, a group, a pipeline."""
        return f"{self.prefix}-{word}-{next(self._numbers)}"

    def topic(self, word: str = "topic", *, partitions: int = 2, **config: str) -> str:
        """A new topic; the name of it. `config` with underscores for dots."""
        name = self.name(word)
        settings = {key.replace("_", "."): value for key, value in config.items()}
        wanted = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        for created in self.admin.create_topics([wanted], operation_timeout=DEADLINE_S).values():
            created.result(DEADLINE_S)
        self._see(name, partitions)
        return name

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Let `topic` have so many partitions, and wait until clients are told of them."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(DEADLINE_S)
        self._see(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete it, and wait until clients are told so."""
        self.admin.delete_topics([topic], operation_timeout=DEADLINE_S)[topic].result(DEADLINE_S)
        deadline = time.monotonic() + DEADLINE_S
        while self._is_seen(topic):
            assert time.monotonic() < deadline, f"{topic} does not go out of sight"
            time.sleep(0.02)

    def _is_seen(self, topic: str) -> bool:
        try:
            self.topic_id(topic)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            return False
        return True

    def recreate(self, topic: str, *, partitions: int) -> None:
        """Delete it, and create another one of its name."""
        before = self.topic_id(topic)
        self.delete(topic)
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1)

        def create() -> None:
            self.admin.create_topics([wanted], operation_timeout=DEADLINE_S)[topic].result(DEADLINE_S)

        patiently(create, DEADLINE_S, again_on=KafkaException)  # the broker may still know the old one
        self._see(topic, partitions)
        assert patiently(lambda: self.topic_id(topic), DEADLINE_S, again_on=KafkaException) != before

    def topic_id(self, topic: str) -> str:
        """As Kafka's tools write it: in letters that are safe in a URL. librdkafka writes others for two of them."""
        described = self.admin.describe_topics(TopicCollection([topic]))[topic].result(DEADLINE_S)
        return str(described.topic_id).replace("/", "_").replace("+", "-")

    def _see(self, topic: str, partitions: int) -> None:
        """A busy broker answers a change before its own metadata have it."""
        deadline = time.monotonic() + DEADLINE_S
        while len(self.admin.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions) < partitions:
            assert time.monotonic() < deadline, f"{partitions} partitions of {topic} do not come into sight"
            time.sleep(0.02)

    def produce(self, topic: str, messages: Iterable[tuple[Any, ...]]) -> None:
        """Write (key, value), (key, value, partition) or (key, value, partition, headers), and wait for every one."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 1}, logger=SILENT)
        errors: list[Any] = []
        for key, value, *rest in messages:
            where = {"partition": rest[0]} if rest and rest[0] is not None else {}
            producer.produce(
                topic,
                key=key,
                value=value,
                headers=rest[1] if len(rest) > 1 else None,
                on_delivery=lambda error, _message: errors.append(error) if error else None,
                **where,
            )
            producer.poll(0)
        left = producer.flush(DEADLINE_S)
        if left or errors:
            raise AssertionError(f"{left} messages not delivered to {topic}; errors: {errors[:3]}")

    def read(self, topic: str, *, committed: bool = True) -> list[Any]:
        """All messages up to now, ordered by partition and offset: what a read_committed reader sees, or all."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.name("reader"),
                "enable.auto.commit": False,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            },
            logger=SILENT,
        )
        try:
            partitions = consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].partitions
            return _read_to_the_end(consumer, [TopicPartition(topic, number, 0) for number in partitions])
        finally:
            consumer.close()

    def ongoing(self, prefix: str) -> list[str]:
        """Transactional ids beginning with `prefix` of open transactions. A broker that still loads is asked again."""
        from kafka.errors import CoordinatorLoadInProgressError

        from tpc.sinks.kafka.cluster.raw_requests import admin_client

        admin = admin_client(bootstrap_servers=self.bootstrap, client_id="tests")
        try:
            listed = patiently(
                lambda: admin.list_transactions(state_filters=["Ongoing"]),
                DEADLINE_S,
                again_on=CoordinatorLoadInProgressError,
            )
        finally:
            admin.close()
        ids = (one.transactional_id for of_broker in listed.values() for one in of_broker)
        return sorted(transactional_id for transactional_id in ids if transactional_id.startswith(prefix))


def _read_to_the_end(consumer: Consumer, partitions: list[TopicPartition]) -> list[Any]:
    consumer.assign(partitions)
    unfinished = {partition.partition for partition in partitions}
    messages: list[Any] = []
    deadline = time.monotonic() + DEADLINE_S
    while unfinished:
        if time.monotonic() > deadline:
            raise AssertionError(f"partitions {unfinished} not read to their end in {DEADLINE_S:g} s")
        message = consumer.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            unfinished.discard(message.partition())
        else:
            raise AssertionError(f"reading failed: {error}")
    return sorted(messages, key=lambda m: (m.partition(), m.offset()))
