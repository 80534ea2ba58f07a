"""Reads Kafka topics for a service: all partitions, assigned explicitly, from positions that the log keeps."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError, TransientError
from tpc.identities import Identities, require_same
from tpc.sinks.kafka.kafka_python import require_kafka_python
from tpc.sinks.kafka.source.background_question import BackgroundQuestion
from tpc.sinks.kafka.source.own_settings import OURS
from tpc.sinks.kafka.source.partitions import (
    Cluster,
    Offsets,
    Partition,
    assignment,
    in_words,
    lost,
    made_consumer,
    named,
    offsets_of,
    position_of,
    topics_of,
)
from tpc.source import Origin, Part, SourceReader, decoded
from tpc.support.deadlines import Deadline

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

    from tpc.sinks.kafka.cluster.topic_ids import TopicIds
    from tpc.sinks.kafka.source.source import KafkaSource

logger = logging.getLogger(__name__)

_WAIT_S = 0.2
_SOON_S = 0.5
"""So long a poll waits for whether there are new partitions: brokers that are there answer sooner."""
_AT_ONCE = 10_000
"""The most messages that the client is asked for at once."""
_MESSAGE_BYTES = 100
"""Of a message without its value."""
_FIRST_BYTES = 64 * 1024
"""So large messages are taken to be before there was one."""
_AHEAD = {"fetch.queue.backoff.ms": 10}
"""A cut empties the client's queue of messages at once. By default the client pauses for 1 s after a full queue."""


class KafkaReader(SourceReader):
    """One consumer, which joins no group and commits nothing."""

    reads_ahead = True

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._made: Consumer | None = None
        self._topic_ids: TopicIds | None = None
        self._identities: Identities = {}
        self._position: Offsets = {}
        self._next: Offsets = {}
        """The next offset of each partition after what is polled."""
        self._polled: dict[Partition, list[Message]] = {}
        self._waits = False
        """Whether anything is polled and not cut."""
        self._bytes = 0
        """Of what is polled and not cut."""
        self._message_bytes = _FIRST_BYTES
        """Of a message, on average, of those that came last."""
        self._ended: Offsets = {}
        """The end of each partition that held no more at the last poll."""
        self._looked_at = 0.0
        self._asking: Consumer | None = None
        self._question: BackgroundQuestion[Offsets] | None = None
        """Which partitions are new, and where they begin: asked, and not taken in yet."""
        self._counts: Mapping[str, int] = {}

    def seek(self, position: str | None) -> None:
        """See `SourceReader`."""
        known, topics = ({}, set[str]()) if position is None else (offsets_of(position), topics_of(position))
        cluster = self._cluster()
        found = self._found(cluster, topics)
        self._identities = self._ids().ask()  # before any offset, so that a later recreation is detected
        begin = cluster.beginnings(found, known, topics, self._source.first)
        self._position, self._next = dict(begin), dict(begin)
        self._polled = {partition: [] for partition in sorted(begin)}
        self._ended, self._waits, self._bytes = {}, False, 0
        with self._named():
            self._consumer().assign(assignment(begin))
        self._looked_at = time.monotonic()

    def identities(self) -> Mapping[str, str]:
        """See `SourceReader`."""
        return self._identities

    def confirm(self) -> None:
        """See `SourceReader`."""
        require_same(self._source.name, self._identities, self._ids().ask(), {})

    def position(self) -> str:
        """See `SourceReader`."""
        return position_of(self._position, self._source.topics)

    def partitions(self) -> Mapping[str, int]:
        """See `SourceReader`."""
        return {} if self._source.shard is None else self._counts

    def _found(self, cluster: Cluster, known_topics: Collection[str]) -> list[Partition]:
        """The partitions that exist and that this shard reads."""
        found, shard = cluster.partitions(self._source.topics, known_topics), self._source.shard
        self._counts = Counter(topic for topic, _ in found)
        return found if shard is None else [partition for partition in found if shard.takes(partition[1])]

    def poll(self, rows: int, timeout_s: float) -> int:
        """See `SourceReader`."""
        self._look_for_partitions()
        return self._take_in(rows, timeout_s)

    def poll_ahead(self, rows: int) -> int:
        """See `SourceReader`. It looks for no new partitions, since the end of a commit waits for this call."""
        return self._take_in(rows, 0.0)

    def _take_in(self, rows: int, timeout_s: float) -> int:
        most = None if self.poll_bytes is None else self._bytes + self.poll_bytes
        # `consume` waits for all that it is asked for. Who has nothing yet wants to know of the first at once.
        messages = self._consume(self._at_once(rows, most) if self._waits else 1, timeout_s)
        taken = self._take(messages)
        while messages and taken < rows and (most is None or self._bytes < most):
            messages = self._consume(self._at_once(rows - taken, most), 0)
            taken += self._take(messages)
        return taken

    def _at_once(self, rows: int, most_bytes: int | None) -> int:
        """How many messages to ask for: no more than are expected to have so many bytes."""
        fitting = _AT_ONCE if most_bytes is None else (most_bytes - self._bytes) // self._message_bytes
        return max(1, min(rows, _AT_ONCE, fitting))

    def _consume(self, rows: int, timeout_s: float) -> list[Message]:
        with self._named():
            return self._consumer().consume(rows, timeout_s)

    def _take(self, messages: list[Message]) -> int:
        polled, ended = self._polled, self._ended
        before = {partition: len(came) for partition, came in polled.items()}
        try:
            for message in messages:
                partition: Any = (message.topic(), message.partition())
                if (error := message.error()) is not None:
                    self._met(error, partition, message.offset() or 0)
                    continue
                polled[partition].append(message)
                if ended:
                    ended.pop(partition, None)
        finally:
            taken = came_bytes = 0
            for partition, came in polled.items():
                if new := len(came) - before[partition]:
                    self._go_on(partition, came[-1].offset() + 1)  # type: ignore[operator]  # what was read has one
                    taken += new
                    came_bytes += sum(map(len, came[-new:]))
            if taken:
                came_bytes += taken * _MESSAGE_BYTES
                self._bytes, self._message_bytes = self._bytes + came_bytes, came_bytes // taken
        self._waits = self._waits or taken > 0
        return taken

    def _go_on(self, partition: Partition, offset: int) -> None:
        self._next[partition] = max(self._next[partition], offset)

    def _met(self, error: KafkaError, partition: Partition, offset: int) -> None:
        """Handle an event that is not a message: the end of a partition, with its offset, or an error."""
        from confluent_kafka import KafkaError

        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            # Between the last message and the end there are only records that readers never get. A position on such a
            # record would look lost once retention has deleted it.
            self._ended[partition] = offset
            self._go_on(partition, offset)
        elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise lost(partition, self._next.get(partition, -1), error.str())
        elif error.name().endswith("_AUTHORIZATION_FAILED"):
            raise ConfigurationError(
                f"{in_words(partition)} may not be read: {error.str()}", remedy="grant READ on it."
            )
        elif code in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE):
            logger.warning("source %s: %s. The client goes on trying.", self._source.name, error.str())
        else:
            raise TransientError(f"{in_words(partition)} cannot be read: {error.str()}")

    def polled_bytes(self) -> int:
        """See `SourceReader`. Of the values; a key and headers are taken to be small."""
        return self._bytes

    def cut(self) -> list[Part]:
        """See `SourceReader`."""
        polled = self._polled
        self._polled = {partition: [] for partition in self._polled}
        self._position, self._waits, self._bytes = dict(self._next), False, 0
        return [part_of(p, came, self._source.decode, is_ended=p in self._ended) for p, came in polled.items()]

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        """See `SourceReader`. Waits for a partition that ends before `end`.

        A broker that was cut off reports an old end until it learns that there is another leader.
        """
        ends, deadline = offsets_of(end), Deadline(timeout_s)
        if strange := ends.keys() - self._next.keys():
            raise TransientError(
                f"source {self._source.name!r} read {in_words(min(strange))} in that epoch, and does not find it now",
                remedy="start again once all brokers answer: one that was cut off knows of no partition that was added "
                "meanwhile. If it stays so, give the source the topics, and the shard, that it had.",
            )
        while any(self._next[p] < at for p, at in ends.items()):
            if deadline.passed:
                raise TransientError(f"source {self._source.name!r} gave no more within {timeout_s:g} s, up to {end}")
            self._take(self._consume(10_000, _WAIT_S))
        is_past = False
        for partition, came in self._polled.items():
            at = ends.get(partition, self._position[partition])
            if self._next[partition] > at:
                is_past = True
                self._ended.pop(partition, None)
            self._polled[partition] = [m for m in came if (m.offset() or 0) < at]
            self._next[partition] = at
        if is_past:  # the client stands after what is dropped here, and would go on there
            with self._named():
                self._consumer().assign(assignment(self._next))
        return self.cut()

    def is_ahead(self) -> bool:
        """See `SourceReader`."""
        return self._next != self._position

    def is_exhausted(self) -> bool:
        """See `SourceReader`."""
        return self._ended.keys() >= self._next.keys()

    def close(self) -> None:
        """See `SourceReader`."""
        if self._topic_ids is not None:
            self._topic_ids.close()
        if self._made is not None:
            self._made.close()
            self._made = None
        asking, self._asking = self._asking, None
        if asking is not None and self._question is not None:
            self._question.at_its_end(asking.close)  # librdkafka does not allow it before
        elif asking is not None:
            asking.close()

    def _look_for_partitions(self) -> None:
        """Take in partitions that were added; they are read from their beginning. Raises `StateLostError`.

        The cluster is asked beside the polls, and its answer taken in by a later one where it does not come soon.
        """
        wait_s = 0.0
        if self._question is None:
            if time.monotonic() - self._looked_at < self._source.look_again_s:
                return
            self._looked_at, wait_s = time.monotonic(), _SOON_S
            self._asking = self._asking or self._new_consumer()  # of its own: a question holds up the polls of a client
            cluster, known = Cluster(self._asking, self._source.timeout_s), frozenset(self._next)
            try:
                self._question = BackgroundQuestion(lambda: self._added(cluster, known))
            except RuntimeError as error:  # the process may have no more threads
                logger.warning("source %s cannot look for new partitions: %s", self._source.name, error)
                return
        if not self._question.has_ended(wait_s):
            return
        question, self._question = self._question, None
        try:
            new = {partition: at for partition, at in question.answer().items() if partition not in self._next}
        except TransientError as error:
            logger.warning("source %s cannot look for new partitions: %s", self._source.name, error.what)
            return
        if new:
            logger.info("source %s: %d partitions are new", self._source.name, len(new))
            with self._named():
                self._consumer().incremental_assign(assignment(new))
            self._position |= new
            self._next |= new
            self._polled = {p: self._polled.get(p, []) for p in sorted(self._next)}

    def _added(self, cluster: Cluster, known: Collection[Partition]) -> Offsets:
        found = self._found(cluster, self._source.topics)
        return {added: cluster.beginning_of_added(added) for added in found if added not in known}

    def _named(self) -> AbstractContextManager[None]:
        return named(f"source {self._source.name!r} cannot be read")

    def _cluster(self) -> Cluster:
        return Cluster(self._consumer(), self._source.timeout_s)

    def _ids(self) -> TopicIds:
        require_kafka_python(None)
        from tpc.sinks.kafka.cluster.topic_ids import TopicIds

        of = self._source
        self._topic_ids = self._topic_ids or TopicIds(of.topics, of.connection, of.timeout_s)
        return self._topic_ids

    def _consumer(self) -> Consumer:
        self._made = self._made or self._new_consumer()
        return self._made

    def _new_consumer(self) -> Consumer:
        group = f"tpc-{self._source.name}"  # asked for by the client, and not used
        return made_consumer({**_AHEAD, **self._source.connection.librdkafka(), **OURS, "group.id": group})


# Messages of one partition as the events of a cut, each with its offset.


def part_of(
    partition: Partition, came: Sequence[Message], decode: Callable[[Message], Any] | None, *, is_ended: bool
) -> Part:
    """The messages `came` of `partition`, or what `decode` makes of each, as a part of a cut."""
    topic, number = partition

    def origin(index: int) -> Origin:
        message = came[index]
        where = f"topic {topic}, partition {number}, offset {message.offset()}"
        return Origin(where, _bytes(message.key()), _bytes(message.value()))

    events, refused = (came, {}) if decode is None else decoded(came, decode)
    return Part(
        f"{topic}-{number}",
        events,
        is_ended,
        refused,
        origin,
        lambda: part_of(partition, came, decode, is_ended=is_ended),
    )


def _bytes(raw: str | bytes | None) -> bytes | None:
    return raw.encode() if isinstance(raw, str) else raw
