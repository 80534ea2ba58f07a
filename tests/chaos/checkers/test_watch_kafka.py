"""The reader of a topic: aborted records, a broker that is killed, a topic that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.chaos.checkers.looking import POLL_S, polled
from tests.conftest import CANNOT_BE_HAD
from tests.support.kafka_topics import SILENT, KafkaTopics
from tests.support.processes import eventually
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.seen import records_stay
from tpc.chaos.checkers.watch_kafka import KafkaReader
from tpc.chaos.checkers.watching import watching
from tpc.chaos.servers.kafka import KafkaServer
from tpc.chaos.servers.server import LocalServer


def started(server: LocalServer) -> LocalServer:
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no {server.name} server: {error}")
    return server


def transactional(topics: KafkaTopics) -> Producer:
    producer = Producer(
        {"bootstrap.servers": topics.bootstrap, "transactional.id": topics.name("transaction"), "linger.ms": 0},
        logger=SILENT,
    )
    producer.init_transactions(20)
    return producer


def write(producer: Producer, topic: str, *values: bytes) -> None:
    """Open a transaction with these records, which the broker then has."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=int(value) % 2)
    assert producer.flush(20) == 0


@pytest.mark.stack
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_an_aborted_record_is_reported_exactly_when_the_reader_was_shown_it(kafka: KafkaTopics, isolation: str) -> None:
    topic, producer = kafka.topic(partitions=2), transactional(kafka)
    reader = KafkaReader(kafka.bootstrap, topic, isolation=isolation, poll_s=POLL_S)
    with watching(reader):
        write(producer, topic, b"1", b"2")
        producer.commit_transaction(20)
        write(producer, topic, b"3", b"4")
        polled(reader, 5)
        producer.abort_transaction(20)
        write(producer, topic, b"5")
        producer.commit_transaction(20)
    check = records_stay("records", reader.seen, read_topic(kafka.bootstrap, topic))
    if isolation == "read_committed":
        assert check.passed, check.differences
        assert check.numbers["observed"] == 3
    else:
        assert not check.passed
        assert len(check.differences) == 2
        assert all("is not there at the end" in line for line in check.differences)


@pytest.mark.stack
def test_the_last_look_reads_to_the_end_of_the_topic(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=2)
    reader = KafkaReader(kafka.bootstrap, topic, poll_s=POLL_S)
    with watching(reader):
        assert reader.seen.polls
        kafka.produce(topic, [(None, b"%d" % number, number % 2) for number in range(5_000)])
    check = records_stay("records", reader.seen, read_topic(kafka.bootstrap, topic))
    assert check.passed, check.differences
    assert check.numbers["observed"] == 5_000


@pytest.mark.stack
def test_a_broker_that_is_killed_is_a_gap_and_no_record_comes_twice(tmp_path: Path) -> None:
    server = started(KafkaServer(tmp_path / "kafka"))
    try:
        topics = KafkaTopics(server.address)
        topic = topics.topic(partitions=2)
        topics.produce(topic, [(None, b"before", 0), (None, b"before", 1)])
        reader = KafkaReader(server.address, topic, poll_s=POLL_S)
        with watching(reader):
            server.kill()
            eventually(lambda: reader.seen.gaps > 0, "the reader misses the broker")
            server.start()
            topics.produce(topic, [(None, b"after", 0), (None, b"after", 1)])
            eventually(lambda: len(reader.seen.records) == 4, "the reader goes on")
        check = records_stay("records", reader.seen, read_topic(server.address, topic))
        assert check.passed, check.differences
        assert check.numbers["gaps"] > 0
    finally:
        server.kill()


@pytest.mark.stack
def test_a_topic_that_is_not_there_fails_the_check(kafka: KafkaTopics) -> None:
    reader = KafkaReader(kafka.bootstrap, kafka.name(), poll_s=POLL_S)
    with watching(reader):
        pass
    check = records_stay("records", reader.seen, [])
    assert not check.passed
    assert "UNKNOWN_TOPIC_OR_PART" in check.differences[0]
