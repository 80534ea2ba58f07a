"""A plain reader sees what is committed, what is open, and where a group stands."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.kafka_topics import SILENT, KafkaTopics
from tests.support.processes import eventually
from tpc.chaos.checkers.kafka_content import group_lag, ongoing_transactions, read_topic


def test_every_record_is_read_with_its_place_and_headers(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=2)
    kafka.produce(topic, [(b"a", b"1", 0, [("epoch", b"7")]), (b"b", None, 1)])
    records = sorted(read_topic(kafka.bootstrap, topic), key=lambda record: record.partition)
    assert [(r.partition, r.offset, r.key, r.value, r.headers) for r in records] == [
        (0, 0, b"a", b"1", {"epoch": "7"}),
        (1, 0, b"b", None, {}),
    ]


def test_an_empty_topic_has_no_records(kafka: KafkaTopics) -> None:
    assert list(read_topic(kafka.bootstrap, kafka.topic())) == []


def test_an_open_transaction_is_named_and_its_rows_are_not_seen(kafka: KafkaTopics) -> None:
    topic, transaction = kafka.topic(), kafka.name("transaction")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": transaction}, logger=SILENT)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(20)
    try:
        assert list(read_topic(kafka.bootstrap, topic)) == []
        assert f"{transaction} (Ongoing)" in ongoing_transactions(kafka.bootstrap)
    finally:
        producer.abort_transaction(20)
    eventually(lambda: transaction not in " ".join(ongoing_transactions(kafka.bootstrap)), "the abort is through")


def test_a_group_that_is_behind_shows_how_far(kafka: KafkaTopics) -> None:
    topic, group = kafka.topic(partitions=2), kafka.name("group")
    kafka.produce(topic, [(None, b"x", 0), (None, b"y", 0), (None, b"z", 1)])
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group}, logger=SILENT)
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    assert group_lag(kafka.bootstrap, group, (topic,)) == {f"{topic}/0": (1, 2), f"{topic}/1": (None, 1)}
