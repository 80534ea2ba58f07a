"""The position at which a reader of Kafka begins in each partition, and the error for a position that is lost."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from tpc.errors import START_ANEW, ConfigurationError, StateLostError, TransientError
from tpc.json import canonical, parse
from tpc.sinks.kafka.librdkafka import lacks_right, reason_of
from tpc.support.deadlines import Deadline

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import TopicMetadata

_AGAIN_S = 0.1
_DELETED = (
    "let this user describe and read it. If it was deleted: a new topic of its name is refused, so bring the old one "
    f"back, or {START_ANEW}."
)
Partition: TypeAlias = "tuple[str, int]"
Offsets: TypeAlias = "dict[Partition, int]"
"""Topic and partition -> the next offset to read."""


def position_of(offsets: Mapping[Partition, int], topics_read: Iterable[str] = ()) -> str:
    """The text in manifests. It has each of `topics_read`, also one without a partition to be read."""
    topics: dict[str, dict[str, int]] = {topic: {} for topic in topics_read}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return canonical(topics).decode()


def offsets_of(position: str) -> Offsets:
    """The inverse of `position_of`."""
    topics = parse(position)
    return {(topic, int(partition)): at for topic, partitions in topics.items() for partition, at in partitions.items()}


def topics_of(position: str) -> set[str]:
    """The topics that were read, also those without a partition to be read."""
    return set(parse(position))


class Cluster:
    """Requests to the cluster through a consumer, each with a deadline. Raises `TransientError`."""

    def __init__(self, consumer: Consumer, timeout_s: float) -> None:
        self._consumer = consumer
        self._timeout_s = timeout_s

    def partitions(self, topics: Iterable[str], known_topics: Collection[str] = ()) -> list[Partition]:
        """All partitions, in order. Raises `ConfigurationError` for a topic that is missing or invisible to the user.

        `known_topics` were read before: a new topic of such a name would be refused.
        """
        found: list[Partition] = []
        for topic in topics:
            described = self.described(topic)
            if described.error is not None or not described.partitions:
                raise ConfigurationError(
                    f"topic {topic!r} cannot be read: {described.error or 'it has no partitions'}",
                    remedy=_DELETED if topic in known_topics else "create it, or let this user describe and read it.",
                )
            found += [(topic, number) for number in sorted(described.partitions)]
        return found

    def described(self, topic: str) -> TopicMetadata:
        """The cluster's metadata of a topic, which may contain an error."""
        with named(f"topic {topic!r} cannot be asked for"):
            described: TopicMetadata = self._consumer.list_topics(topic, timeout=self._timeout_s).topics[topic]
        return described

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """The first offset, and the one after the last.

        While the client knows no leader of a partition, it denies the partition that it has just described, so it is
        asked again.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        deadline, bounds = Deadline(self._timeout_s), None
        while bounds is None and not deadline.passed:
            try:
                bounds = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=deadline.remaining_s)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._UNKNOWN_PARTITION or deadline.remaining_s <= _AGAIN_S:
                    raise _refused(error, f"the offsets of {in_words(partition)} cannot be asked for") from error
                time.sleep(_AGAIN_S)
        if bounds is None:
            raise TransientError(f"no broker returned the offsets of {in_words(partition)} in {self._timeout_s:g} s")
        low, high = bounds
        return low, high

    def beginnings(
        self, found: Sequence[Partition], known: Offsets, known_topics: Collection[str], first: str
    ) -> Offsets:
        """The offset at which to begin in each partition that was `found`, given the earlier offsets.

        Raises `StateLostError` if the cluster no longer has the next messages.
        """
        for partition in known:
            if partition not in found:
                raise lost(partition, known[partition], "it is not there, or not read any more")
        begin: Offsets = {}
        for partition in found:
            if partition not in known and partition[0] in known_topics:
                begin[partition] = self.beginning_of_added(partition)
                continue
            low, high = self.bounds(partition)
            if partition in known:
                if not low <= known[partition] <= high:
                    raise lost(partition, known[partition], f"it holds {low} to {high}")
                begin[partition] = known[partition]
            else:
                begin[partition] = high if first == "latest" else low
        return begin

    def beginning_of_added(self, partition: Partition) -> int:
        """The begin of a new partition in a known topic: all its messages are newer than what was read.

        Raises `StateLostError` if retention has deleted some of them already.
        """
        low, high = self.bounds(partition)
        if low > 0:
            raise lost(partition, 0, f"it is new, and of its messages {low} to {high} are left")
        return low


def assignment(offsets: Offsets) -> list[TopicPartition]:
    """The offsets in the form of a consumer's assignment."""
    from confluent_kafka import TopicPartition

    return [TopicPartition(topic, number, offset) for (topic, number), offset in sorted(offsets.items())]


def in_words(partition: Partition) -> str:
    """A partition, for people."""
    return f"partition {partition[1]} of topic {partition[0]!r}"


def lost(partition: Partition, offset: int, why: str) -> StateLostError:
    """The error for lost messages: retention has deleted them, or the topic was recreated."""
    return StateLostError(
        f"{in_words(partition)} is to be read from offset {offset} on: {why}",
        remedy=f"nothing was skipped. Bring the messages back, or {START_ANEW}.",
    )


def made_consumer(settings: Mapping[str, Any]) -> Consumer:
    """A consumer. Raises `ConfigurationError` for a setting that librdkafka does not know."""
    from confluent_kafka import Consumer, KafkaException

    try:
        return Consumer(dict(settings))
    except (KafkaException, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"librdkafka refuses the consumer's settings: {reason_of(error)}",
            remedy="correct client=; the names are in librdkafka's CONFIGURATION.md.",
        ) from error


@contextmanager
def named(what: str) -> Iterator[None]:
    """Turn errors of a client's calls into errors of the library that begin with `what`."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise _refused(error, what) from error


def _refused(error: Exception, what: str) -> TransientError | ConfigurationError:
    if lacks_right(error):
        return ConfigurationError(f"{what}: {reason_of(error)}", remedy="let this user describe and read the topic.")
    return TransientError(f"{what}: {reason_of(error)}")
