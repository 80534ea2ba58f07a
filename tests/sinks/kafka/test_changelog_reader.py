"""A reader of a changelog whose cluster does not answer, or whose settings the client refuses: each a named error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tpc.changelog import ChangelogReader
from tpc.errors import ConfigurationError, TransientError
from tpc.sinks import KafkaChangelog
from tpc.sinks.kafka.changelog.reader import TopicReader
from tpc.sources import KafkaSource

POSITION: Any = {"topic": "t", "partitions": 1, "first": {"0": 0}, "end": {"0": 1}}
NOBODY = "127.0.0.1:1"


@pytest.fixture
def away() -> Iterator[ChangelogReader]:
    with closing(KafkaChangelog("t", servers=NOBODY, timeout_s=0.5).reader()) as reader:
        yield reader


@pytest.mark.parametrize(
    "asks",
    [
        lambda reader: reader.check(POSITION),
        lambda reader: reader.check(None),
        lambda reader: reader.check_begins(),
        lambda reader: reader.is_ended(POSITION),
        lambda reader: list(reader.read(POSITION)),
    ],
    ids=["check", "check of a first start", "check_begins", "is_ended", "read"],
)
@pytest.mark.slow
def test_a_cluster_that_is_away_is_a_passing_trouble(asks: Callable[[ChangelogReader], Any], away: Any) -> None:
    with pytest.raises(TransientError, match="topic 't'"):
        asks(away)


class Refusing:
    """A client that does not answer the first `times`, and then knows no topic."""

    def __init__(self, times: int) -> None:
        self.times = times

    def list_topics(self, topic: str, timeout: float) -> Any:
        self.times -= 1
        if self.times >= 0:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        described = type("Described", (), {"error": error, "partitions": {}})
        return type("Listed", (), {"topics": {topic: described}})

    def refuses(self, *_: Any) -> Any:
        raise KafkaException(KafkaError(KafkaError._STATE))

    assign = consume = refuses

    def close(self) -> None:
        pass


def reader_with(consumer: Any, timeout_s: float) -> TopicReader:
    reader = KafkaChangelog("t", servers=NOBODY, timeout_s=timeout_s).reader()
    assert isinstance(reader, TopicReader)
    reader._made = {"read_committed": consumer, "read_uncommitted": consumer}
    return reader


def test_a_topic_is_asked_for_again_before_its_cluster_is_away() -> None:
    assert reader_with(Refusing(2), 30.0)._partitions_there() == set()


def test_a_client_that_refuses_to_read_is_a_passing_trouble() -> None:
    with pytest.raises(TransientError, match="topic 't' cannot be read"):
        list(reader_with(Refusing(0), 1.0).read(POSITION))


@pytest.mark.parametrize(
    "begin",
    [
        lambda: KafkaChangelog("t", servers=NOBODY, client={"no.such": "x"}).reader().check(POSITION),
        lambda: KafkaSource("t", servers=NOBODY, client={"no.such": "x"}).reader().seek(None),
    ],
    ids=["changelog", "source"],
)
def test_a_setting_that_the_client_refuses_is_named(begin: Callable[[], Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"librdkafka refuses the consumer's settings.*no\.such"):
        begin()
