"""Reads a changelog's topic up to a position: every committed message before the end, and none after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from tpc.changelog import ChangelogReader, Reading, Row
from tpc.errors import ConfigurationError, CorruptionError, StateLostError, TpcError, TransientError
from tpc.json import JSONObject
from tpc.sinks.kafka.changelog.messages import row_of
from tpc.sinks.kafka.cluster.answers import Description
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.source.own_settings import OURS
from tpc.sinks.kafka.source.partitions import Cluster, made_consumer, named
from tpc.support.deadlines import Deadline, patiently, until

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_AT_ONCE = 10_000
_WAIT_S = 0.1
REMEDY = (
    "nothing was changed. Bring the topic back as it was. If the state's folder still exists, you can instead remove "
    "the changelog (`tpc remove MODULE:SERVICE SINK --reason TEXT`, with the old settings) and begin it again in "
    "another topic."
)


class TopicReader(ChangelogReader):
    """Two consumers that join no group: one reads what is committed, the other finds the end of the topic."""

    def __init__(self, topic: str, connection: ConnectionSettings, timeout_s: float) -> None:
        self._topic = topic
        self._connection = connection
        self._timeout_s = timeout_s
        self._made: dict[str, Consumer] = {}

    def check(self, position: JSONObject | None) -> None:
        """See `ChangelogReader`."""
        if position is None:
            return self._require_empty()
        if position["topic"] != self._topic:
            raise ConfigurationError(
                f"the changelog is topic {self._topic!r} now, and what the state holds is in {position['topic']!r}",
                remedy="name the old topic again; to give a changelog another topic, first remove it with the old "
                "settings (`tpc remove MODULE:SERVICE SINK --reason TEXT`).",
            )
        cluster = self._cluster("read_uncommitted")
        there = self._partitions_there()
        for name, end in position["end"].items():
            if int(name) not in there:
                raise self._lost(f"partition {name} is not there, and had come to offset {end}")
            low, high = self._bounds(cluster, int(name))
            if low > position["first"][name]:
                raise self._lost(f"partition {name} begins at offset {low}; it began at {position['first'][name]}")
            if high < end:
                raise self._lost(f"partition {name} ends at offset {high}, and had come to {end}")
        return None

    def _partitions_there(self) -> set[int]:
        """The numbers of the topic's partitions; empty if there is no such topic: a lost one is not created again."""
        from confluent_kafka import KafkaError

        cluster, unknown = (
            self._cluster("read_uncommitted"),
            (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC),
        )
        error = patiently(lambda: cluster.described(self._topic), self._timeout_s).error
        if error is not None and error.code() in unknown:
            return set()
        return set(self._numbers(cluster))

    def _require_empty(self) -> None:
        """Check that the topic is empty, except for aborted branches."""
        cluster = self._cluster("read_committed")
        bounds = {number: self._bounds(cluster, number) for number in self._numbers(cluster)}
        first, end = ({str(p): at[side] for p, at in bounds.items()} for side in (0, 1))
        if next(self._messages(Reading({"first": first, "end": end})), None) is not None:
            raise ConfigurationError(
                f"topic {self._topic!r} holds messages already, and the changelog of a state begins in it",
                remedy="give every changelog a topic of its own, and a new topic if it begins again.",
            )

    def check_begins(self) -> None:
        """See `ChangelogReader`."""
        if not until(lambda: not self._held_up(), self._timeout_s) and (waiting := self._held_up()):
            what = "the changelog of a state is to begin, and another program writes to"
            raise held_up(self._topic, waiting, what, self._connection, self._timeout_s)
        self._require_empty()

    def is_ended(self, position: JSONObject) -> bool:
        """See `ChangelogReader`."""
        cluster = self._cluster("read_committed")
        return all(self._bounds(cluster, int(p))[1] >= end for p, end in position["end"].items())

    def read(self, position: JSONObject, after: JSONObject | None = None) -> Iterator[Row]:
        """See `ChangelogReader`."""
        for message in self._messages(Reading(position, after)):
            try:
                yield row_of(message.key(), message.value())
            except CorruptionError as error:
                raise self._lost(
                    f"at offset {message.offset()} of partition {message.partition()} {error.what}"
                ) from None

    def _messages(self, reading: Reading) -> Iterator[Message]:
        """The committed messages of it."""
        from confluent_kafka import KafkaError, TopicPartition

        deadline = Deadline(self._timeout_s)
        consumer = self._consumer("read_committed")
        begin = [TopicPartition(self._topic, number, reading.begin[number]) for number in sorted(reading.left)]
        cannot = f"topic {self._topic!r} cannot be read"
        with named(cannot):
            consumer.assign(begin)
        while reading.left:
            with named(cannot):
                came = consumer.consume(_AT_ONCE, _WAIT_S)
            for message in came:
                number, offset, error = message.partition() or 0, message.offset() or 0, message.error()
                if error is not None:
                    self._met(error)
                    if error.code() == KafkaError._PARTITION_EOF:
                        reading.come_to(number, offset)
                elif reading.takes(number, offset):
                    yield message
            if any(message.error() is None for message in came):
                deadline = Deadline(self._timeout_s)
            elif deadline.passed:
                raise self._nothing_more(reading)
        with named(cannot):
            consumer.unassign()

    def _nothing_more(self, reading: Reading) -> TransientError:
        within = f"nothing more came within {self._timeout_s:g} s, before the recorded end of"
        if waiting := self._held_up() & reading.left:
            return held_up(self._topic, waiting, within, self._connection, self._timeout_s)
        return TransientError(f"{within} topic {self._topic!r} in partitions {sorted(reading.left)}")

    def _held_up(self) -> set[int]:
        """The partitions with an open transaction, which read_committed readers cannot pass."""
        all_of_it, committed = self._cluster("read_uncommitted"), self._cluster("read_committed")
        return {n for n in self._numbers(all_of_it) if self._bounds(committed, n)[1] < self._bounds(all_of_it, n)[1]}

    def _met(self, error: KafkaError) -> None:
        """Handle an event that is not a message: ignore the end of a partition, and errors that the client repairs."""
        from confluent_kafka import KafkaError

        code = error.code()
        if code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise self._lost(error.str())
        if error.name().endswith("_AUTHORIZATION_FAILED"):
            raise ConfigurationError(
                f"topic {self._topic!r} may not be read: {error.str()}", remedy="grant READ on it."
            )

    def _lost(self, why: str) -> StateLostError:
        return StateLostError(f"the changelog {self._topic!r} does not hold what it must: {why}", remedy=REMEDY)

    def _numbers(self, cluster: Cluster) -> list[int]:
        return [number for _, number in patiently(lambda: cluster.partitions([self._topic]), self._timeout_s)]

    def _bounds(self, cluster: Cluster, number: int) -> tuple[int, int]:
        """First and next offset of a partition, asked again if it has a new leader: the client does not do that."""
        return patiently(lambda: cluster.bounds((self._topic, number)), self._timeout_s)

    def _cluster(self, isolation: str) -> Cluster:
        return Cluster(self._consumer(isolation), self._timeout_s)

    def _consumer(self, isolation: str) -> Consumer:
        if isolation not in self._made:
            ours = {**OURS, "isolation.level": isolation, "group.id": "tpc-changelog"}  # no group is joined
            self._made[isolation] = made_consumer({**self._connection.librdkafka(), **ours})
        return self._made[isolation]

    def close(self) -> None:
        """See `ChangelogReader`."""
        while self._made:
            self._made.popitem()[1].close()


# Which transactions block the readers of a topic, as a text for people: their ids, where, and what ends them.

_ALL = ".*"


def held_up(
    topic: str, partitions: Iterable[int], what: str, connection: ConnectionSettings, timeout_s: float
) -> TransientError:
    """The error for readers of `topic` that are blocked in `partitions`; `what` names the readers."""
    where = sorted(partitions)
    try:
        found = _open_in(topic, set(where), connection, timeout_s)
    except TpcError as error:
        by = f"its id is unknown: {error.what}"
    else:
        by = (
            "; ".join(map(_in_words, found))
            or "by one of an id that this user may not see, or that no coordinator knows"
        )
    return TransientError(
        f"{what} topic {topic!r} in partitions {where}: a transaction is open there ({by})",
        remedy="nothing was changed; once it has ended, start again. One whose name begins with 'tpc~' ends when the "
        "pipeline in its name starts (`tpc orphans` for one that never will), another one with its writer or its "
        f"timeout; else kafka-transactions.sh abort --topic {topic} --partition NUMBER --start-offset OFFSET.",
    )


def _open_in(topic: str, partitions: set[int], connection: ConnectionSettings, timeout_s: float) -> list[Description]:
    with closing(TransactionClient(connection, timeout_s)) as client:
        listed = client.list_transactions(_ALL, ["Ongoing", "PrepareCommit", "PrepareAbort"])
        described = client.describe(row.transactional_id for row in listed) if listed else {}
    return [
        one
        for one in described.values()
        if isinstance(one, Description) and any((topic, number) in one.partitions for number in partitions)
    ]


def _in_words(one: Description) -> str:
    return f"{one.transactional_id!r} of producer {one.producer_id}, {one.state}, timeout {one.timeout_ms / 1000:g} s"
