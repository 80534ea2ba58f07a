"""One producer with an initialised transactional id: what it is made from, and what librdkafka reports of it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError, TransientError
from tpc.json import JSONObject
from tpc.sinks.kafka.cluster.facts import LIBRDKAFKA_MESSAGE_MAX_BYTES, Facts, find_facts
from tpc.sinks.kafka.cluster.login import DIAGNOSIS_S, require_login
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.librdkafka import lacks_right, logger, reason_of
from tpc.sinks.kafka.token_function import ask_first
from tpc.sinks.kafka.worker.idle_polling import keep_polled
from tpc.support.deadlines import Deadline

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from tpc.sinks.kafka.transactional_sink import TransactionalSink


_INITIALISE_AGAIN_S = 0.1
_PAUSE_S = 0.01


@dataclass(frozen=True)
class ProducerSettings:
    """Everything that a producer is made from, besides its id."""

    connection: ConnectionSettings
    facts: Facts
    compression: str
    timeout_s: float
    tells_offsets: bool = False
    """Whether every row's offset is wanted, which costs a Python call for each."""

    def configuration(self) -> dict[str, Any]:
        """For librdkafka. Raises `ConfigurationError` for an unset variable."""
        patience_ms = min(int(self.timeout_s * 1000), self.facts.transaction_timeout_ms)
        size_bytes = min(self.facts.message_max_bytes or LIBRDKAFKA_MESSAGE_MAX_BYTES, LIBRDKAFKA_MESSAGE_MAX_BYTES)
        ours = {
            "compression.type": self.compression,
            "transaction.timeout.ms": self.facts.transaction_timeout_ms,
            # Of all the time that a row may wait behind others: a slow link takes long for a large branch. That the
            # brokers take some is watched by `OpenTransaction`.
            "message.timeout.ms": self.facts.transaction_timeout_ms,
            "socket.timeout.ms": max(patience_ms, 10),
            "statistics.interval.ms": 20,
            # A Python call per acknowledged row costs as much as producing it; acknowledgements are counted in the
            # statistics instead.
            "delivery.report.only.error": not self.tells_offsets,
            "linger.ms": 50,  # `flush` does not wait for it
            # Where Java's clients, and so Spark's own sink, put a key; librdkafka's default takes CRC32, and scatters
            # empty keys. Rows without a key go anywhere, as theirs do.
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 262_144,
            # The broker limits a batch, not a message: a topic that takes less than librdkafka's default would
            # refuse a batch of rows that are each small enough.
            "message.max.bytes": max(size_bytes, 1000),
            "batch.size": size_bytes,
        }
        return {**ours, **self.connection.librdkafka()}


def producer_settings(sink: TransactionalSink, hint: JSONObject) -> ProducerSettings:
    """What the producers of a sink are made from: its settings, and the driver's facts of the cluster in the hint.

    Without a hint the facts are asked for here.
    """
    facts = Facts.of_hint(hint) or find_facts(
        sink.connection, topic=sink.topic, transaction_timeout_s=sink.transaction_timeout_s, timeout_s=sink.timeout_s
    )
    return ProducerSettings(sink.connection, facts, sink.compression, sink.timeout_s, sink.tells_offsets)


class InitialisedProducer:
    """A producer whose id is initialised, and what librdkafka reports of it. Used for one transaction.

    `first_failure` is the first row the brokers have not taken. Reports are taken in `poll` and `flush`, by one thread
    at a time: whoever uses the producer, and the one that polls those that nobody uses. (An abort takes some, too, for
    which nobody asks any more.)
    """

    def __init__(self, name: TransactionalId, settings: ProducerSettings) -> None:
        self.name = name
        self.facts = settings.facts
        self.first_failure: tuple[KafkaError, Message] | None = None
        self.offsets: dict[int, tuple[int, int]] = {}
        """Partition -> the first and the last offset of its rows, where they are told; for sinks of one topic."""
        self.statistics: str | None = None
        self._connection = settings.connection
        self._told: str | None = None
        """Why the brokers do not let this client in, where librdkafka told."""
        self._reporting = threading.Lock()
        self._unraised: Exception | None = None
        """What a poll in the background raised: it is for whoever uses the producer."""
        self._producer: Producer | None = _make(settings, name, self)
        keep_polled(self)

    @property
    def producer(self) -> Producer:
        """The client. It is never closed and never a context manager: both abort an open transaction."""
        if self._producer is None:
            raise TransientError(f"the producer {self.name} has been let go")
        return self._producer

    def initialise(self, timeout_s: float) -> None:
        """Ask the coordinator for a producer id.

        Raises `ConfigurationError` for a refused login or a missing right, `TransientError` when no server answers.

        A call that has timed out is taken up again where it is by the next. One long call waits for librdkafka's next
        attempt when the first came before there was a connection: 500 ms for every third producer (measured); a
        repeated one does not.
        """
        from confluent_kafka import KafkaError, KafkaException

        deadline = Deadline(timeout_s)
        reason = "no answer"
        while True:
            try:
                return self.producer.init_transactions(min(timeout_s, _INITIALISE_AGAIN_S))
            except (KafkaException, SystemError) as error:
                answer = error.args[0] if isinstance(error, KafkaException) else None  # else the client is broken
                timed_out = answer is not None and answer.code() == KafkaError._TIMED_OUT
                if not timed_out:
                    reason = reason_of(error)
                if timed_out:
                    self.poll(0)  # the reports of failed logins wait there
                if (timed_out or (answer is not None and answer.retriable())) and not deadline.passed:
                    time.sleep(_PAUSE_S)
                    continue
                if lacks_right(error):
                    raise ConfigurationError(
                        f"Kafka refuses this user a producer id for {self.name}: {reason}",
                        remedy="grant it Write on transactional ids that begin with 'tpc~'.",
                    ) from error
                if self._told is not None:  # a broker that goes down in a handshake looks the same
                    with suppress(TransientError):
                        require_login(self._connection, DIAGNOSIS_S)
                raise TransientError(
                    f"Kafka gave no producer id for {self.name} within {timeout_s:g} s: {self._told or reason}"
                ) from error

    @property
    def is_let_go(self) -> bool:
        """Whether the client is gone."""
        return self._producer is None

    def let_go(self) -> None:
        """Drop the client. An open transaction stays open, for the coordinator of the pipeline to end (measured)."""
        with self._reporting:
            self._producer = None

    def poll(self, wait_s: float) -> None:
        """Take what librdkafka has to tell, and wait for it for so long. Raises what the client raises."""
        with self._reporting:
            self._raise_unraised()
            self.producer.poll(wait_s)

    def flush(self, wait_s: float) -> None:
        """Send what lingers, and take what librdkafka has to tell. Raises what the client raises."""
        with self._reporting:
            self._raise_unraised()
            self.producer.flush(wait_s)

    def poll_unless_used(self) -> None:
        """Take what librdkafka has told so far, unless somebody does already. Raises nothing: see `poll`."""
        if not self._reporting.acquire(blocking=False):
            return
        try:
            if self._producer is not None:
                self._producer.poll(0)
        except Exception as error:  # noqa: BLE001  whatever it is, the next `poll` raises it
            self._unraised = error
        finally:
            self._reporting.release()

    def _raise_unraised(self) -> None:
        if self._unraised is not None:
            error, self._unraised = self._unraised, None
            raise error

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Called by librdkafka in `poll` and `flush` for each row that was not taken, or for every one."""
        if error is None:
            partition, at = message.partition() or 0, message.offset()
            offset = -1 if at is None else at
            first, last = self.offsets.get(partition, (offset, offset))
            self.offsets[partition] = min(first, offset), max(last, offset)
        elif self.first_failure is None:
            self.first_failure = (error, message)

    def on_error(self, error: KafkaError) -> None:
        """Called by librdkafka in `poll` and `flush` for what is no row's: a login that is refused, above all."""
        from confluent_kafka import KafkaError

        logger.info("%s: %s", self.name, error.str())
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self._told = error.str()

    def on_statistics(self, report: str) -> None:
        """Called by librdkafka in `poll` and `flush`, for every 20 ms once."""
        self.statistics = report


def _make(settings: ProducerSettings, name: TransactionalId, reports: InitialisedProducer) -> Producer:
    from confluent_kafka import KafkaException, Producer

    configuration = {
        **settings.configuration(),
        "transactional.id": str(name),
        "on_delivery": reports.on_delivery,
        "stats_cb": reports.on_statistics,
        "error_cb": reports.on_error,
    }
    ask_first(configuration)
    try:
        return Producer(configuration)
    except (KafkaException, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"librdkafka refuses the producer's settings: {reason_of(error)}",
            remedy="correct client= and compression=; the names stand in librdkafka's CONFIGURATION.md.",
        ) from error
