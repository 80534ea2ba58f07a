"""The broker: what is committed and what is open survives its death; timeouts come within seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.conftest import CANNOT_BE_HAD
from tests.support.kafka_topics import SILENT, KafkaTopics
from tests.support.processes import eventually
from tpc.chaos.servers.kafka import KafkaServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KafkaServer]:
    server = KafkaServer(tmp_path / "kafka")
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no Kafka: {error}")
    yield server
    server.kill()


def open_transaction(topics: KafkaTopics, topic: str, value: bytes, timeout_ms: int = 60_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": topics.bootstrap,
            "transactional.id": topics.name("transaction"),
            "transaction.timeout.ms": timeout_ms,
            "socket.timeout.ms": timeout_ms,
        },
        logger=SILENT,
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, value)
    assert producer.flush(20) == 0
    return producer


def test_messages_and_open_transactions_survive_a_kill(server: KafkaServer) -> None:
    topics = KafkaTopics(server.bootstrap)
    topic = topics.topic(partitions=1)
    topics.produce(topic, [(None, b"kept")])
    producer = open_transaction(topics, topic, b"open")
    server.kill()
    server.start()
    # A broker lists what it has loaded, and answers before it has loaded all.
    eventually(lambda: len(topics.ongoing(topics.prefix)) == 1, "the open transaction is listed")
    assert [message.value() for message in topics.read(topic)] == [b"kept"]
    producer.commit_transaction(30)
    # The broker answers once the commit is durable, a moment before readers see it.
    eventually(lambda: [message.value() for message in topics.read(topic)] == [b"kept", b"open"], "both are visible")


def test_another_owner_finds_the_data_under_another_address(server: KafkaServer) -> None:
    topics = KafkaTopics(server.bootstrap)
    topic = topics.topic(partitions=1)
    topics.produce(topic, [(None, b"kept")])
    server.stop()
    other = KafkaServer(server.directory)
    try:
        other.start()
        assert other.bootstrap != server.bootstrap
        assert [message.value() for message in KafkaTopics(other.bootstrap).read(topic)] == [b"kept"]
    finally:
        other.kill()


def test_a_transaction_that_timed_out_is_aborted_within_seconds(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1)
    open_transaction(kafka, topic, b"late", timeout_ms=1_000)
    eventually(lambda: kafka.ongoing(kafka.prefix) == [], "the broker aborts what timed out", timeout_s=8)
    assert kafka.read(topic) == []


@pytest.mark.usefixtures("stack")
def test_a_transaction_may_wait_a_week_and_topics_are_not_made_by_accident(kafka: KafkaTopics) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap}, logger=SILENT)
    (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    settings = {name: entry.value for name, entry in described.result(20).items()}
    assert settings["transaction.max.timeout.ms"] == "604800000"
    assert settings["auto.create.topics.enable"] == "false"
