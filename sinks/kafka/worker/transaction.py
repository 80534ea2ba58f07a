"""One branch as an open Kafka transaction: the process that writes it begins, fills, prepares or aborts it.

Prepared means: the brokers have acknowledged every row, the marker is inside, and the producer id and epoch are known,
so that any process can end the transaction. Then the producer is dropped; the transaction stays open.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tpc import failpoints
from tpc.errors import ConfigurationError, DataError, TpcError, TransientError
from tpc.handles import Handle
from tpc.sink import Committable, describe_row
from tpc.sinks.kafka.cluster.answers import NONE, RETRIABLE, Reply, Transaction
from tpc.sinks.kafka.cluster.markers import group_metadata
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.librdkafka import lacks_right, logger, reason_of
from tpc.sinks.kafka.worker.producer import InitialisedProducer, ProducerSettings
from tpc.sinks.kafka.worker.producer_pool import acquire
from tpc.support.deadlines import Deadline, until

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, TopicPartition

T = TypeVar("T")

_STATISTICS_S = 0.005
_REPORTS_S = 0.05


class OpenTransaction:
    """An open transaction of one branch. Each request ends within the settings' `timeout_s`; an abort makes three.

    It waits for rows as long as the brokers acknowledge some within every `timeout_s`.
    """

    def __init__(self, handle: Handle, settings: ProducerSettings, released: Mapping[str, Mapping[str, int]]) -> None:
        self.handle = handle
        self._settings = settings
        self._prepared: Committable | None = None
        self._aborted = False
        self.flush_seconds = 0.0
        self.initialised: InitialisedProducer = acquire(handle, settings, released)
        self._client("begin_transaction", self.initialised.producer.begin_transaction)

    def partitions(self, topic: str) -> int | None:
        """How many partitions a topic has; None if there is no such topic. Raises `TransientError`.

        A topic that the user may not see raises `ConfigurationError`.
        """
        from confluent_kafka import KafkaError

        metadata = self._client(
            f"topic {topic}", lambda: self.initialised.producer.list_topics(topic, timeout=self._settings.timeout_s)
        ).topics[topic]
        if metadata.error is not None and metadata.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise self._refused(f"this user may not see topic {topic!r}")
        return None if metadata.error is not None else len(metadata.partitions)

    def wait_for_room(self) -> int:
        """Handle delivery reports until the client's queue is half as long; returns how long it was.

        Raises `TransientError` if it does not shrink for the whole timeout, and the error of a refused row.
        """
        before = len(self.initialised.producer)
        self._drain_to(before // 2, lambda: self.serve_reports(_REPORTS_S))
        return before

    def _drain_to(self, most: int, serve: Callable[[], object]) -> None:
        """Call `serve` until at most `most` rows have no answer yet; each answer restarts the deadline."""
        fewest = len(self.initialised.producer)
        deadline = Deadline(self._settings.timeout_s)
        while (waiting := len(self.initialised.producer)) > most:
            if waiting < fewest:
                fewest, deadline = waiting, Deadline(self._settings.timeout_s)
            elif deadline.passed:
                raise self._transient(
                    f"the brokers took no row for {self._settings.timeout_s:g} s (timeout_s), and {waiting:,} wait"
                    f"{waiting_for(self.initialised.statistics)}"
                )
            serve()
            self._raise_failure()

    def serve_reports(self, wait_s: float = 0.0) -> None:
        """Handle the client's reports, waiting for them at most `wait_s`. Raises `TransientError`."""
        self._client("produce", lambda: self.initialised.poll(wait_s))

    def send_offsets(self, offsets: list[TopicPartition], group: str) -> None:
        """Put consumer offsets of a group into the transaction. Raises `TransientError`."""
        self._client(
            f"offsets to group {group}",
            lambda: self.initialised.producer.send_offsets_to_transaction(
                offsets, group_metadata(group), self._settings.timeout_s
            ),
        )

    def prepare(
        self, rows: int, size_bytes: int, marker: tuple[str, int], *, topics: Iterable[str], produced: int
    ) -> Committable:
        """Prepare the transaction, so that any process can commit it. On an error it is aborted.

        `marker` is an existing topic-partition; `topics` are those of the rows; `produced` is the number of rows passed
        to the client.
        """
        try:
            return self._prepare(rows, size_bytes, marker, sorted(topics), produced)
        except BaseException:
            self._abort_after_failure()
            raise

    def _prepare(
        self, rows: int, size_bytes: int, marker: tuple[str, int], topics: list[str], produced: int
    ) -> Committable:
        from confluent_kafka import TopicPartition

        began = time.perf_counter()
        self._flush()
        self.flush_seconds = time.perf_counter() - began
        failpoints.hit_branch("pass.flushed", self.handle)
        topic, partition = marker
        name = str(self.initialised.name)
        mark = TopicPartition(topic, partition, self.handle.epoch, metadata=str(self.handle))
        self.send_offsets([mark], name)
        report = self._report(produced)
        version = self.initialised.broker_limits.endtxn_version
        transaction = Transaction(name, report.producer_id, report.producer_epoch, version)
        self._prepared = Committable(self.handle, name, rows, size_bytes, {**transaction.data, "topics": topics})
        self.initialised.close()
        return self._prepared

    def _flush(self) -> None:
        """Wait until every row is acknowledged or refused; `_report` counts the acknowledged ones afterwards."""

        def flush() -> None:
            self._client("flush", lambda: self.initialised.flush(_REPORTS_S))

        self._drain_to(0, flush)
        self._raise_failure()

    def _report(self, produced: int) -> Report:
        """The first statistics that report the transaction as open and every row as acknowledged.

        Earlier ones may have -1/-1 (the id is not assigned yet), or be older than the last acknowledgement.
        """
        deadline = Deadline(self._settings.timeout_s)
        report = None
        while not deadline.passed:
            self._client("statistics", lambda: self.initialised.poll(_STATISTICS_S))
            if self.initialised.statistics is None:
                continue
            report = Report.of(self.initialised.statistics)
            self.initialised.statistics = None
            if report.is_open and report.producer_id >= 0 and report.acknowledged == produced:
                return report
        raise self._transient(f"librdkafka shows no open transaction of {produced} acknowledged rows: {report}")

    def _raise_failure(self) -> None:
        if self.initialised.first_failure is not None:
            raise error_of_failed_row(self.handle, self.initialised)

    def refusal(self, error: Exception, key: Any) -> TpcError:
        """The error for what `produce` raised on the row with `key`. If a row was refused earlier, its error."""
        from confluent_kafka import KafkaException

        if self.initialised.first_failure is not None:
            return error_of_failed_row(self.handle, self.initialised)
        if isinstance(error, KafkaException):
            return error_of_row(self.handle, error.args[0], key, None)
        return self._transient(f"Kafka transaction {self.initialised.name}: {reason_of(error)}")

    def abort(self) -> None:
        """Undo the branch, prepared or not; a second call does nothing. Raises `TransientError` if it cannot."""
        if self._aborted:
            return
        if self._prepared is not None:
            self._abort_prepared(self._prepared)
        else:
            self._abort_open()
        self._aborted = True

    def _abort_prepared(self, committable: Committable) -> None:
        with closing(TransactionClient(self._settings.connection, self._settings.timeout_s)) as client:
            reply = client.end([Transaction.of(committable)], commit=False)[0]
        if reply.name != NONE:
            raise self._transient(f"Kafka did not abort the prepared transaction {committable.resource}: {reply}")

    def _abort_open(self) -> None:
        """Abort, then fence this producer.

        librdkafka 2.16 forgets a partition if its registration is answered after the abort has begun. Then it sends no
        EndTxn and reports success (measured: 2 in 300), and the transaction would block readers until its timeout. A
        new producer epoch ends it, also if the registration arrives later. Kafka's transaction coordinator gives one as
        soon as no abort is under way. The evidence of the abort is lost then, which is safe for a branch that was never
        prepared.
        """
        if not self.initialised.is_closed:
            timeout_s = self._settings.timeout_s  # no variable for the client: it must be freed before others connect
            self._client("abort_transaction", lambda: self.initialised.producer.abort_transaction(timeout_s))
            self.initialised.close()
        name, timeout_ms = str(self.initialised.name), self._settings.broker_limits.transaction_timeout_ms
        last = Reply(NONE)
        with closing(TransactionClient(self._settings.connection, self._settings.timeout_s)) as client:

            def answered() -> bool:
                nonlocal last
                last = client.fence(name, timeout_ms)
                return last.name not in RETRIABLE

            until(answered, self._settings.timeout_s)
        if last.name != NONE:
            raise self._transient(f"Kafka did not abort the open transaction {name}: {last}")

    def _abort_after_failure(self) -> None:
        """Abort without raising, so that the user sees the failure. The pipeline's coordinator sweeps what is left."""
        try:
            self.abort()
        except TpcError as error:
            logger.warning("left to the sweep of the pipeline's coordinator: %s", error)
            self.initialised.close()

    def _client(self, what: str, call: Callable[[], T]) -> T:
        """A call of confluent-kafka. A fatal error of the client is raised as SystemError, also by `poll`."""
        from confluent_kafka import KafkaException

        try:
            return call()
        except (KafkaException, SystemError, RuntimeError) as error:
            told = f"Kafka transaction {self.initialised.name}: {what}: {reason_of(error)}"
            if lacks_right(error):
                raise self._refused(told) from error
            raise self._transient(told) from error

    def _refused(self, what: str) -> ConfigurationError:
        handle = self.handle
        return ConfigurationError(
            what,
            pipeline=str(handle.pipeline),
            epoch=handle.epoch,
            sink=handle.sink,
            remedy="grant this user the named right (docs/how-to/secure-kafka.md lists all), then restart.",
        )

    def _transient(self, what: str) -> TransientError:
        handle = self.handle
        return TransientError(what, pipeline=str(handle.pipeline), epoch=handle.epoch, sink=handle.sink)


# What librdkafka's statistics report about an open transaction: its producer id and epoch, and the acknowledged rows.

_ANY = "-1"
"""The partition of rows without a chosen partition."""
_NAMED = 5
"""The most partitions that an error names."""


@dataclass(frozen=True)
class Report:
    """What librdkafka's statistics report about the transaction of a producer that is used for one only."""

    producer_id: int
    producer_epoch: int
    is_open: bool
    acknowledged: int
    """The number of rows: librdkafka numbers those of each partition from 1, and reports the last acknowledged one.

    It does not report a row that is answered as a duplicate of an earlier send; present brokers answer it as taken.
    """

    @classmethod
    def of(cls, statistics: str) -> Report:
        """From the JSON of librdkafka."""
        told = json.loads(statistics)
        partitions = [partition for topic in told["topics"].values() for partition in topic["partitions"].values()]
        return cls(
            producer_id=told["eos"]["producer_id"],
            producer_epoch=told["eos"]["producer_epoch"],
            is_open=told["eos"]["txn_state"] == "InTransaction",
            acknowledged=sum(partition["acked_msgid"] for partition in partitions),
        )


def waiting_for(statistics: str | None) -> str:
    """The partitions of the rows without an answer, as text to add to an error; empty if none are reported."""
    topics = {} if statistics is None else json.loads(statistics)["topics"]
    waiting = [
        f"{name}/{number} ({f'broker {leader}' if (leader := partition['leader']) >= 0 else 'no leader is known'})"
        for name, topic in topics.items()
        for number, partition in topic["partitions"].items()
        if number != _ANY and partition["msgq_cnt"] + partition["xmit_msgq_cnt"] + partition["msgs_inflight"] > 0
    ]
    more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
    return f" for {', '.join(waiting[:_NAMED])}{more}" if waiting else ""


# The error for a row that librdkafka or a broker did not take: a bad row, a missing right, or a temporary failure.


def error_of_failed_row(handle: Handle, source: InitialisedProducer) -> TpcError:
    """The error of the first row that the brokers have not taken.

    The client drops rows of a failed transaction; then the transaction has the reason.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    assert source.first_failure is not None
    error, message = source.first_failure
    if error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
        try:  # a failed transaction refuses this with the reason; the branch is aborted in any case
            source.producer.send_offsets_to_transaction(
                [TopicPartition(message.topic() or "", 0, 0)], group_metadata(str(source.name)), 0.1
            )
        except KafkaException as reason:
            if lacks_right(reason):
                error = reason.args[0]
    return error_of_row(handle, error, message.key(), message.topic())


def error_of_row(handle: Handle, error: KafkaError, key: Any, topic: str | None) -> TpcError:
    """The error for a row with `key` that was not taken. It names the column if the row itself is at fault."""
    from confluent_kafka import KafkaError

    columns = {
        KafkaError.MSG_SIZE_TOO_LARGE: "value",
        KafkaError.INVALID_RECORD: "key",
        KafkaError.UNKNOWN_TOPIC_OR_PART: "topic",
        KafkaError._UNKNOWN_TOPIC: "topic",
        KafkaError._UNKNOWN_PARTITION: "partition",
    }
    where: dict[str, Any] = {"pipeline": str(handle.pipeline), "epoch": handle.epoch, "sink": handle.sink}
    row = describe_row({"key": key, "topic": topic}, ("key",) if topic is None else ("key", "topic"))
    if error.code() in columns:
        what = f"Kafka does not take the row with {row}: {error.str()}"
        return DataError(what, column=columns[error.code()], key=key, **where)
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return ConfigurationError(
            f"this user may not write to topic {topic}", remedy="grant it Write on the topic.", **where
        )
    return TransientError(f"Kafka did not take the row with {row}: {error.str()}", **where)
