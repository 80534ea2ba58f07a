"""A consumer that follows a topic from its beginning while a run is being disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers.kafka_content import record_of
from tpc.chaos.checkers.seen import SeenRecords
from tpc.chaos.checkers.watching import ANSWER_TIMEOUT_S, POLL_S, Reader
from tpc.chaos.running.quiet import quiet
from tpc.support.deadlines import Deadline

if TYPE_CHECKING:
    from confluent_kafka import Consumer

BATCH = 10_000
RECONNECT_MAX_MS = 500


class KafkaReader(Reader):
    """Takes down every record it is given, under `isolation`. The topic must be there, with all its partitions.

    After the run it reads on to where the topic ends: committed records keep their places, so one that was visible
    for a moment only is missing at the end, however late it was read.
    """

    def __init__(self, servers: str, topic: str, *, isolation: str = "read_committed", poll_s: float = POLL_S) -> None:
        super().__init__(f"topic {topic}", poll_s=poll_s)
        self.seen: SeenRecords = SeenRecords()
        self._servers = servers
        self._topic = topic
        self._isolation = isolation
        self._consumer: Consumer | None = None
        self._next: dict[int, int] = {}
        self._unheard: set[int] = set()
        """Partitions that have given neither a record nor their end since they were assigned."""
        self._away = False

    def look(self) -> bool:
        """Take what has come. False until every partition was heard, and when the broker was out of reach."""
        consumer = self._connected()
        self._away = False
        # Returns early when so many have come; else it waits as long as a poll may take.
        for message in consumer.consume(BATCH, timeout=self.poll_s):
            self._take(message)
        return not self._unheard and not self._away

    def last_look(self) -> bool:
        """Read to the end of every partition; False if that takes longer than an answer may."""
        self._assign(self._connected())
        deadline = Deadline(ANSWER_TIMEOUT_S)
        while not self.look():
            if deadline.passed:
                return False
        return True

    def _take(self, message: Any) -> None:
        from confluent_kafka import KafkaError, KafkaException

        error = message.error()
        if error is None:
            record = record_of(message)
            self.seen.take(record)
            self._next[record.partition] = record.offset + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._unheard.discard(message.partition())
        elif _is_away(error):
            self._away = True
        else:
            raise KafkaException(error)

    def _connected(self) -> Consumer:
        if self._consumer is None:
            from confluent_kafka import Consumer, KafkaException

            self._consumer = Consumer(
                {
                    "bootstrap.servers": self._servers,
                    "group.id": "tpc-reader",
                    "isolation.level": self._isolation,
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",  # records that are gone are a finding
                    "fetch.wait.max.ms": 50,
                    "reconnect.backoff.max.ms": RECONNECT_MAX_MS,
                    "error_cb": self._on_error,
                },
                logger=quiet,
            )
            known = self._consumer.list_topics(self._topic, timeout=ANSWER_TIMEOUT_S).topics[self._topic]
            if known.error is not None:
                raise KafkaException(known.error)
            self._next = {partition: self._next.get(partition, 0) for partition in known.partitions}
            self._assign(self._consumer)
        return self._consumer

    def _assign(self, consumer: Consumer) -> None:
        """Each partition is given from where it was left, and says anew where it ends."""
        from confluent_kafka import TopicPartition

        self._unheard = set(self._next)
        consumer.assign([TopicPartition(self._topic, partition, offset) for partition, offset in self._next.items()])

    def _on_error(self, _error: Any) -> None:
        # librdkafka goes on by itself; what is for good is an error of a message as well.
        self._away = True

    def is_away(self, error: Exception) -> bool:
        """Whether the broker could not be reached."""
        from confluent_kafka import KafkaException

        return isinstance(error, KafkaException) and _is_away(error.args[0])

    def disconnect(self) -> None:
        """Close the consumer."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


def _is_away(error: Any) -> bool:
    """Whether an answer may be another one soon; librdkafka marks few of these as retriable itself."""
    from confluent_kafka import KafkaError

    return error.retriable() or error.code() in {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
    }
