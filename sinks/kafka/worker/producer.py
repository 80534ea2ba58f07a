"""One producer with an initialised transactional id: its settings, and what librdkafka reports about it."""

from __future__ import annotations

import _thread
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError, TransientError
from tpc.json import JSONObject
from tpc.sinks.kafka.cluster.broker_limits import LIBRDKAFKA_MESSAGE_MAX_BYTES, BrokerLimits, find_broker_limits
from tpc.sinks.kafka.cluster.login import DIAGNOSIS_S, require_login
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId
from tpc.sinks.kafka.connection_settings import ConnectionSettings
from tpc.sinks.kafka.librdkafka import lacks_right, logger, reason_of
from tpc.sinks.kafka.token_function import ask_first
from tpc.sinks.kafka.worker.idle_polling import keep_polled
from tpc.support.deadlines import Deadline, within

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from tpc.sinks.kafka.transactional_sink import TransactionalSink


_INITIALISE_AGAIN_S = 0.1
_PAUSE_S = 0.01
_END_S = 5.0
"""How long the end of a client is waited for: it takes some milliseconds."""


@dataclass(frozen=True)
class ProducerSettings:
    """Everything that a producer needs, besides its id."""

    connection: ConnectionSettings
    broker_limits: BrokerLimits
    compression: str
    timeout_s: float
    tells_offsets: bool = False
    """Whether every row's offset is needed, which costs a Python call for each."""

    def configuration(self) -> dict[str, Any]:
        """The configuration for librdkafka. Raises `ConfigurationError` for an unset variable."""
        patience_ms = min(int(self.timeout_s * 1000), self.broker_limits.transaction_timeout_ms)
        size_bytes = min(
            self.broker_limits.message_max_bytes or LIBRDKAFKA_MESSAGE_MAX_BYTES, LIBRDKAFKA_MESSAGE_MAX_BYTES
        )
        ours = {
            "compression.type": self.compression,
            "transaction.timeout.ms": self.broker_limits.transaction_timeout_ms,
            # The time that a row may wait behind others: on a slow link a large branch takes long. `OpenTransaction`
            # watches that the brokers take some rows meanwhile.
            "message.timeout.ms": self.broker_limits.transaction_timeout_ms,
            "socket.timeout.ms": max(patience_ms, 10),
            "statistics.interval.ms": 20,
            # A Python call per acknowledged row would cost as much as producing it, so acknowledgements are counted in
            # the statistics.
            "delivery.report.only.error": not self.tells_offsets,
            "linger.ms": 50,  # `flush` does not wait for it
            # The partitioner of Java's clients, and so of Spark's own sink: librdkafka's default uses CRC32, and
            # scatters empty keys. Rows without a key go to any partition, as with Java's clients.
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 262_144,
            # The broker limits a batch, not a message: with librdkafka's default a topic of a lower limit would refuse
            # a batch of rows that are each small enough.
            "message.max.bytes": max(size_bytes, 1000),
            "batch.size": size_bytes,
        }
        return {**ours, **self.connection.librdkafka()}


def producer_settings(sink: TransactionalSink, hint: JSONObject) -> ProducerSettings:
    """The settings for the producers of a sink: its own, and what the brokers allow from the hint.

    Without a hint the cluster is asked here.
    """
    broker_limits = BrokerLimits.of_hint(hint) or find_broker_limits(
        sink.connection, topic=sink.topic, transaction_timeout_s=sink.transaction_timeout_s, timeout_s=sink.timeout_s
    )
    return ProducerSettings(sink.connection, broker_limits, sink.compression, sink.timeout_s, sink.tells_offsets)


class InitialisedProducer:
    """A producer with an initialised id, and what librdkafka reports about it. Used for one transaction.

    `first_failure` is the first row that the brokers have not taken. `poll` and `flush` deliver reports, in one thread
    at a time: the user of the producer, or the thread that polls idle producers. (An abort delivers some too, which are
    no longer needed.)
    """

    def __init__(self, name: TransactionalId, settings: ProducerSettings) -> None:
        self.name = name
        self.broker_limits = settings.broker_limits
        self.first_failure: tuple[KafkaError, Message] | None = None
        self.offsets: dict[int, tuple[int, int]] = {}
        """Partition -> the first and the last offset of its rows, with `tells_offsets`; for sinks of one topic."""
        self.statistics: str | None = None
        self._connection = settings.connection
        self._told: str | None = None
        """Why the brokers refuse this client, if librdkafka has reported it."""
        self._reporting = threading.Lock()
        self._unraised: Exception | None = None
        """What a poll in the background raised; the next call of the producer's user raises it."""
        self._producer: Producer | None = None
        self._producer = _make(settings, name, self)
        keep_polled(self)

    @property
    def producer(self) -> Producer:
        """The client. It is never closed and never a context manager: both abort an open transaction."""
        if self._producer is None:
            raise TransientError(f"the producer {self.name} has been dropped")
        return self._producer

    def initialise(self, timeout_s: float) -> None:
        """Ask the coordinator for a producer id.

        Raises `ConfigurationError` for a refused login or a missing right, `TransientError` if no server answers.

        A call after a timeout continues the request. So short calls are repeated: if the first attempt comes before
        there is a connection, one long call would wait 500 ms for librdkafka's next attempt (measured for every third
        producer); repeated calls do not.
        """
        from confluent_kafka import KafkaError, KafkaException

        deadline = Deadline(timeout_s)
        reason = "no answer"
        while True:
            try:
                return self.producer.init_transactions(min(timeout_s, _INITIALISE_AGAIN_S))
            except (KafkaException, SystemError) as error:
                answer = error.args[0] if isinstance(error, KafkaException) else None  # otherwise the client is broken
                timed_out = answer is not None and answer.code() == KafkaError._TIMED_OUT
                if not timed_out:
                    reason = reason_of(error)
                if timed_out:
                    self.poll(0)  # delivers the reports of failed logins
                if (timed_out or (answer is not None and answer.retriable())) and not deadline.passed:
                    time.sleep(_PAUSE_S)
                    continue
                if lacks_right(error):
                    raise ConfigurationError(
                        f"Kafka refuses this user a producer id for {self.name}: {reason}",
                        remedy="grant it Write on transactional ids that begin with 'tpc~'.",
                    ) from error
                if self._told is not None:  # no error of the settings: a broker that dies in a handshake looks the same
                    with suppress(TransientError):
                        require_login(self._connection, DIAGNOSIS_S)
                raise TransientError(
                    f"Kafka gave no producer id for {self.name} within {timeout_s:g} s: {self._told or reason}"
                ) from error

    @property
    def is_closed(self) -> bool:
        """Whether the client is gone."""
        return self._producer is None

    def close(self) -> None:
        """Let the client go. An open transaction stays open (measured); the coordinator of the pipeline ends it.

        librdkafka 2.16 may wait for ever while it ends a client that was fenced (measured on a busy machine: 3 in 97),
        so that the task would. Another thread ends the client, and this one waits for that at most `_END_S`.
        """
        with self._reporting:
            clients, self._producer = [self._producer], None
        if clients == [None]:
            return
        try:
            within(_END_S, clients.clear, waiting_for=f"the end of the client {self.name}")
        except TimeoutError as error:
            logger.warning(
                "librdkafka: %s. Its threads and its memory stay until this process ends. No row is concerned: the"
                " pipeline's coordinator ends what is open.",
                error,
            )
        except RuntimeError:  # a container's limit of threads, or Python ends
            clients.clear()

    def __del__(self) -> None:
        """A producer that was never closed is not ended by the thread that drops it either.

        The garbage collector may call this while its thread holds the lock of `threading`: so a bare thread.
        """
        clients, self._producer = [self._producer], None
        if clients != [None]:
            with suppress(RuntimeError):  # no thread: the client ends here, with `clients`
                _thread.start_new_thread(clients.clear, ())

    def poll(self, wait_s: float) -> None:
        """Deliver librdkafka's reports, waiting for them at most `wait_s`. Raises what the client raises."""
        with self._reporting:
            self._raise_unraised()
            self.producer.poll(wait_s)

    def flush(self, wait_s: float) -> None:
        """Send lingering rows, and deliver librdkafka's reports. Raises what the client raises."""
        with self._reporting:
            self._raise_unraised()
            self.producer.flush(wait_s)

    def poll_unless_used(self) -> None:
        """Deliver the reports that are there, unless another thread does. Raises nothing; the next `poll` does."""
        if not self._reporting.acquire(blocking=False):
            return
        try:
            if self._producer is not None:
                self._producer.poll(0)
        except Exception as error:  # noqa: BLE001  the next `poll` raises it
            self._unraised = error
        finally:
            self._reporting.release()

    def _raise_unraised(self) -> None:
        if self._unraised is not None:
            error, self._unraised = self._unraised, None
            raise error

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Called by librdkafka in `poll` and `flush` for each row that was not taken; with `tells_offsets` for all."""
        if error is None:
            partition, at = message.partition() or 0, message.offset()
            offset = -1 if at is None else at
            first, last = self.offsets.get(partition, (offset, offset))
            self.offsets[partition] = min(first, offset), max(last, offset)
        elif self.first_failure is None:
            self.first_failure = (error, message)

    def on_error(self, error: KafkaError) -> None:
        """Called by librdkafka in `poll` and `flush` for errors that concern no row, such as a refused login."""
        from confluent_kafka import KafkaError

        logger.info("%s: %s", self.name, error.str())
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL):
            self._told = error.str()

    def on_statistics(self, report: str) -> None:
        """Called by librdkafka in `poll` and `flush`, once for every 20 ms."""
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
            remedy="correct client= and compression=; the names are in librdkafka's CONFIGURATION.md.",
        ) from error
