"""What a changelog says is read without the library: the newest value of each key, and which keys are gone."""

from __future__ import annotations

import pytest

from tests.support.kafka_topics import KafkaTopics
from tpc.changelog import Row
from tpc.chaos.checkers.changelog_content import read_changelog
from tpc.sinks.kafka.changelog.messages import value_of


def written(kafka: KafkaTopics, *rows: Row) -> str:
    """A topic with these changes, as the library writes them."""
    topic = kafka.topic()
    kafka.produce(topic, [(row.key, value_of(row)) for row in rows])
    return topic


def test_the_newest_value_of_a_key_counts(kafka: KafkaTopics) -> None:
    rows = (Row(b"a", b"1", None), Row(b"b", b"2", 5_000), Row(b"a", b"3", 7_000))
    assert sorted(read_changelog(kafka.bootstrap, written(kafka, *rows))) == [(b"a", b"3", 7_000), (b"b", b"2", 5_000)]


def test_a_key_that_is_gone_is_not_there(kafka: KafkaTopics) -> None:
    rows = (Row(b"a", b"1", None), Row(b"b", b"2", None), Row(b"a", None, None))
    assert read_changelog(kafka.bootstrap, written(kafka, *rows)) == [(b"b", b"2", None)]


def test_what_is_no_change_is_refused(kafka: KafkaTopics) -> None:
    topic = kafka.topic()
    kafka.produce(topic, [(b"a", b"\x07 of somebody else")])
    with pytest.raises(ValueError, match="another version"):
        read_changelog(kafka.bootstrap, topic)
