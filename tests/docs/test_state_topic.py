"""The reader of the state topic's example, on a real broker: what it makes of a topic is the state."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import KafkaException, Producer

from tests.docs.examples import load
from tests.support.kafka_topics import SILENT, KafkaTopics

EXAMPLE = load("state_topic")
DEADLINE_S = 20.0


def cart(**items: int) -> bytes:
    return json.dumps(items).encode()


def test_of_every_cart_the_newest_value_counts_and_a_tombstone_takes_it_away(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=3, cleanup_policy="compact")
    written = [("c1", cart(i1=1)), ("c2", cart(i1=5)), ("c1", cart(i1=1, i2=2)), ("c2", None), ("c3", None)]
    kafka.produce(topic, [*written, ("c3", cart(i9=9))])
    assert EXAMPLE.rebuild(kafka.bootstrap, topic) == {"c1": {"i1": 1, "i2": 2}, "c3": {"i9": 9}}


def test_what_was_aborted_or_is_not_decided_yet_is_no_state(kafka: KafkaTopics) -> None:
    topic = kafka.topic(partitions=1, cleanup_policy="compact")
    settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": kafka.name("carts")}
    producer = Producer(settings, logger=SILENT)
    producer.init_transactions(DEADLINE_S)
    for value, end in ((cart(i1=1), "commit"), (None, "abort"), (cart(i1=99), "open")):
        producer.begin_transaction()
        producer.produce(topic, value, key="c1")
        assert producer.flush(DEADLINE_S) == 0
        if end == "commit":
            producer.commit_transaction(DEADLINE_S)
        elif end == "abort":
            producer.abort_transaction(DEADLINE_S)
    assert EXAMPLE.rebuild(kafka.bootstrap, topic) == {"c1": {"i1": 1}}
    producer.abort_transaction(DEADLINE_S)


def test_a_topic_that_is_not_there_is_no_empty_state(kafka: KafkaTopics) -> None:
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC"):
        EXAMPLE.rebuild(kafka.bootstrap, kafka.name())
