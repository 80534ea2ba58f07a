"""The executor's half of the Kafka sink: Arrow batches into one open transaction, then prepared or aborted.

The transaction begins with the first row, so a branch without rows costs nothing and prepares nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tpc.errors import ConfigurationError, DataError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Writer, describe_row
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC
from tpc.sinks.kafka.cluster.facts import Facts, find_facts
from tpc.sinks.kafka.worker.handover import Handover
from tpc.sinks.kafka.worker.messages import MessageColumns
from tpc.sinks.kafka.worker.producer import ProducerSettings
from tpc.sinks.kafka.worker.transaction import OpenTransaction
from tpc.sinks.shared.arrow_json import json_objects
from tpc.sinks.shared.exact import REFUSALS, refused_value, require_valid
from tpc.support.arrow_rows import described, value_at

if TYPE_CHECKING:
    from tpc.sinks.kafka.transactional_sink import TransactionalSink

POLL_EVERY_ROWS = 8192
"""How often delivery reports are served while rows are produced."""


def producer_settings(sink: TransactionalSink, hint: JSONObject) -> ProducerSettings:
    """What the producers of a sink are made from: its settings, and the driver's facts of the cluster in the hint.

    Without a hint the facts are asked for here.
    """
    facts = Facts.of_hint(hint) or find_facts(
        sink.connection, topic=sink.topic, transaction_timeout_s=sink.transaction_timeout_s, timeout_s=sink.timeout_s
    )
    return ProducerSettings(sink.connection, facts, sink.compression, sink.timeout_s, sink.tells_offsets)


class KafkaWriter(Writer):
    """One branch. Errors name sink, epoch, column and the row's key. `epoch_header`: see `KafkaSink`."""

    def __init__(
        self,
        sink: TransactionalSink,
        handle: Handle,
        schema: pa.Schema,
        hint: JSONObject,
        *,
        epoch_header: str | None,
    ) -> None:
        self._sink = sink
        self._handle = handle
        self._message_columns = MessageColumns.of(schema, sink.topic)
        self._hint = hint
        self._epoch_header = None if epoch_header is None else (epoch_header, str(handle.epoch).encode())
        self._open: OpenTransaction | None = None
        self._partitions: dict[str, int] = {}
        self._rows = 0
        self._size_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Hand the rows to the client, which sends them in the background."""
        if batch.num_rows == 0:
            return
        if self._open is None:
            settings = producer_settings(self._sink, self._hint)
            self._open = OpenTransaction(self._handle, settings, self._hint.get("released", {}))
        try:
            self._check_topics(batch)
        except UnicodeError as error:
            raise self._refused(batch, error) from error
        if (nameless := self._message_columns.row_of_nameless_header(batch)) is not None:
            raise self._unfit(batch, nameless, "headers", "a header has no name")
        try:
            keys, values = self._message_columns.keys(batch), self._message_columns.values(batch)
            messages = self._message_columns.messages(batch, keys, values, self._epoch_header)
        except REFUSALS as error:
            raise self._refused(batch, error) from error
        self._produce(batch, messages, self._open)
        self._rows += batch.num_rows
        for column in (keys, values):
            self._size_bytes += 0 if column is None else pc.sum(pc.binary_length(column)).as_py() or 0

    def prepare(self) -> Committable | None:
        """Flush, count, mark; None when no row came."""
        if self._open is None:
            return None
        marker_topic = self._sink.marker_topic or GROUPS_TOPIC
        made = self._open.prepare(
            self._rows, self._size_bytes, (marker_topic, 0), topics=self._partitions, produced=self._rows
        )
        self.flush_seconds = self._open.flush_seconds
        return made

    @property
    def offsets(self) -> Mapping[int, tuple[int, int]]:
        """Partition -> the first and the last offset of the branch's rows, where `TransactionalSink.tells_offsets`."""
        return {} if self._open is None else self._open.source.offsets

    def abort(self) -> None:
        """Undo the branch; a second call does nothing."""
        if self._open is not None:
            self._open.abort()

    def _produce(self, batch: pa.RecordBatch, messages: Handover, transaction: OpenTransaction) -> None:
        from confluent_kafka import KafkaException

        row, no_room = 0, -1
        while row < batch.num_rows:
            end = min(row + POLL_EVERY_ROWS, batch.num_rows)
            try:
                messages.some(transaction.source.producer.produce, row, end)
            except BufferError as error:  # full by rows (500,000), or by bytes (256 MiB), unless `client=` says else
                row = messages.refused
                is_empty = not transaction.wait_for_room()
                if is_empty and row == no_room:
                    why = "the client's queue is empty, and has no room for it; raise queue.buffering.max.kbytes"
                    raise self._unfit(batch, row, "value", why) from error
                no_room = row if is_empty else -1
                continue
            except (KafkaException, SystemError) as error:
                raise transaction.refusal(error, self._key_of(batch, messages.refused)) from error
            row = end
            transaction.serve_reports()

    def _check_topics(self, batch: pa.RecordBatch) -> None:
        """Topics and partitions that do not exist are refused here: the client would find out after 30 s."""
        if self._sink.topic is not None:
            self._check_topic(batch, self._sink.topic)
            return
        for topic in self._message_columns.topics(batch):
            if topic is None:
                column = batch.column(self._message_columns.topic_column)
                raise self._unfit(batch, pc.index(column.is_null(), True).as_py(), "topic", "the topic is NULL")
            self._check_topic(batch, topic)

    def _check_topic(self, batch: pa.RecordBatch, topic: str) -> None:
        assert self._open is not None
        if topic not in self._partitions:
            count = self._open.partitions(topic)
            if count is None and self._sink.topic is not None:
                raise ConfigurationError(
                    f"Kafka has no topic {topic!r}",
                    remedy="create it, then restart: the epoch is repeated.",
                    pipeline=str(self._handle.pipeline),
                    epoch=self._handle.epoch,
                    sink=self._sink.name,
                )
            if count is None:
                row = pc.index(batch.column(self._message_columns.topic_column), topic).as_py()
                raise self._unfit(batch, row, "topic", f"Kafka has no topic {topic!r}")
            self._partitions[topic] = count
        lowest, highest = self._message_columns.partitions(batch, topic)
        if lowest < -1 or highest >= self._partitions[topic]:
            wrong = highest if highest >= self._partitions[topic] else lowest
            row = self._message_columns.row_of_partition(batch, topic, wrong)
            raise self._unfit(batch, row, "partition", f"topic {topic!r} has no partition {wrong}")

    def _key_of(self, batch: pa.RecordBatch, row: int) -> Any:
        """What tells a row from others: its key column, else its first columns."""
        if self._message_columns.key is not None:
            return value_at(batch, batch.schema.names[self._message_columns.key], row)
        columns = [name for name in batch.schema.names if name not in ("value", "headers")][:3]
        return described(batch, row, columns) if columns else f"row {self._rows + row} of the branch"

    def _refused(self, batch: pa.RecordBatch, error: Exception) -> DataError:
        """A value that has no form in a message: in the row as JSON, a header's name or a topic."""
        parts, names = self._message_columns, batch.schema.names
        as_text = [names[index] for index in (parts.headers, parts.topic_column) if index is not None]
        key = [] if parts.key is None else [names[parts.key]]

        def encode(some: pa.RecordBatch) -> None:
            require_valid(some)
            json_objects(some.select([name for name in parts.json_columns if name in some.schema.names]))

        columns = [*parts.json_columns, *as_text]
        return refused_value(batch, encode, error, handle=self._handle, key=key, columns=columns)

    def _unfit(self, batch: pa.RecordBatch, row: int, column: str, why: str) -> DataError:
        key = self._key_of(batch, row)
        return DataError(
            f"Kafka cannot take the row with {describe_row({'key': key}, ['key'])}: {why}",
            column=column,
            key=key,
            pipeline=str(self._handle.pipeline),
            epoch=self._handle.epoch,
            sink=self._sink.name,
        )
