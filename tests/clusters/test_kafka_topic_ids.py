"""Three brokers: which topic one is, those tell that lead its partitions, whichever of them goes or stands still."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.kafka_topics import KafkaTopics
from tpc.chaos.servers.kafka_cluster import KafkaCluster
from tpc.errors import StateLostError
from tpc.source import SourceReader
from tpc.sources import KafkaSource

SUITE = "Kafka, three brokers"
pytestmark = [pytest.mark.stack, pytest.mark.clusters]


@contextmanager
def reader_of(brokers: KafkaCluster, topic: str) -> Iterator[SourceReader]:
    """One that stands at the beginning."""
    reader = KafkaSource(topic, servers=brokers.bootstrap).reader()
    try:
        reader.seek(None)
        yield reader
    finally:
        reader.close()


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_without_a_broker_that_led_the_others_tell(brokers: KafkaCluster, fault: str) -> None:
    topic = KafkaTopics(brokers.bootstrap).name(fault)
    brokers.make_topic(topic)
    leader = brokers.leader_of(topic)
    with reader_of(brokers, topic) as reader:
        reader.confirm()
        brokers.kill([leader]) if fault == "killed" else brokers.freeze(leader)
        try:
            reader.confirm()
        finally:
            brokers.start([leader]) if fault == "killed" else brokers.thaw(leader)
        reader.confirm()
    brokers.wait_until_whole()


def test_a_topic_made_anew_a_moment_ago_is_refused_whoever_has_heard_of_it(brokers: KafkaCluster) -> None:
    topics = KafkaTopics(brokers.bootstrap)
    topic = topics.name("anew")
    brokers.make_topic(topic)
    with reader_of(brokers, topic) as reader:
        topics.recreate(topic, partitions=3)
        with pytest.raises(StateLostError, match="is not the one that it has read"):
            reader.confirm()
        reader.seek(None)
        reader.confirm()
