"""Where a reader of Kafka begins in each partition, and what it means that a position is not there any more."""

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
    "let this user describe and read it. If it was deleted: one that is recreated under its name is refused, so bring "
    f"it back, or {START_ANEW}."
)
Partition: TypeAlias = "tuple[str, int]"
Offsets: TypeAlias = "dict[Partition, int]"
"""Topic and partition -> the next offset to read."""


def position_of(offsets: Mapping[Partition, int], topics_read: Iterable[str] = ()) -> str:
    """The text that is in manifests. Of `topics_read` each is there, also one without a partition to be read."""
    topics: dict[str, dict[str, int]] = {topic: {} for topic in topics_read}
    for (topic, partition), offset in sorted(offsets.items()):
        topics.setdefault(topic, {})[str(partition)] = offset
    return canonical(topics).decode()


def offsets_of(position: str) -> Offsets:
    """The inverse."""
    topics = parse(position)
    return {(topic, int(partition)): at for topic, partitions in topics.items() for partition, at in partitions.items()}


def topics_of(position: str) -> set[str]:
    """The topics that were read, also those of which there was no partition to be read."""
    return set(parse(position))


class Cluster:
    """Questions to the cluster through a consumer, each with a deadline. Raises `TransientError`."""

    def __init__(self, consumer: Consumer, timeout_s: float) -> None:
        self._consumer = consumer
        self._timeout_s = timeout_s

    def partitions(self, topics: Iterable[str], known_topics: Collection[str] = ()) -> list[Partition]:
        """All of them, in order. Raises `ConfigurationError` for a topic that is not there, or not to be seen.

        Of `known_topics` events were read before: another topic of such a name would be refused.
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
        """What the cluster says of it, which may be an error."""
        with named(f"topic {topic!r} cannot be asked for"):
            described: TopicMetadata = self._consumer.list_topics(topic, timeout=self._timeout_s).topics[topic]
        return described

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """The first offset that is there, and that after the last.

        The client denies a partition that it has just described as long as it has heard of no leader: asked again.
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
            raise TransientError(f"the offsets of {in_words(partition)} were not told within {self._timeout_s:g} s")
        low, high = bounds
        return low, high

    def beginnings(
        self, found: Sequence[Partition], known: Offsets, known_topics: Collection[str], first: str
    ) -> Offsets:
        """Where to begin in each partition that was `found`, given where one stood before.

        Raises `StateLostError` where the cluster no longer has what comes next.
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
        """Where a partition begins that is new in a known topic: all that was ever in it came after what was read.

        Raises `StateLostError` where retention has been there before the reader.
        """
        low, high = self.bounds(partition)
        if low > 0:
            raise lost(partition, 0, f"it is new, and of what came into it {low} to {high} is left")
        return low


def assignment(offsets: Offsets) -> list[TopicPartition]:
    """The same, as a consumer is told it."""
    from confluent_kafka import TopicPartition

    return [TopicPartition(topic, number, offset) for (topic, number), offset in sorted(offsets.items())]


def in_words(partition: Partition) -> str:
    """A partition, for people."""
    return f"partition {partition[1]} of topic {partition[0]!r}"


def lost(partition: Partition, offset: int, why: str) -> StateLostError:
    """What comes next is gone: by retention, or because the topic was recreated."""
    return StateLostError(
        f"{in_words(partition)} is to be read from offset {offset} on: {why}",
        remedy=f"nothing was skipped. Bring the messages back, or {START_ANEW}.",
    )


def made_consumer(settings: Mapping[str, Any]) -> Consumer:
    """A consumer. Raises `ConfigurationError` for what librdkafka does not know."""
    from confluent_kafka import Consumer, KafkaException

    try:
        return Consumer(dict(settings))
    except (KafkaException, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"librdkafka refuses the consumer's settings: {reason_of(error)}",
            remedy="correct client=; the names stand in librdkafka's CONFIGURATION.md.",
        ) from error


@contextmanager
def named(what: str) -> Iterator[None]:
    """Calls of a client whose errors become ours, and begin with `what`."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise _refused(error, what) from error


def _refused(error: Exception, what: str) -> TransientError | ConfigurationError:
    if lacks_right(error):
        return ConfigurationError(f"{what}: {reason_of(error)}", remedy="let this user describe and read the topic.")
    return TransientError(f"{what}: {reason_of(error)}")
