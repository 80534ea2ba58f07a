"""The writer of the Kafka sink: writes Arrow batches to one open transaction, then prepares or aborts it.

The transaction begins with the first row, so a branch without rows costs nothing and prepares nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from tpc.errors import ConfigurationError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Writer
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC
from tpc.sinks.kafka.worker.handover import Handover
from tpc.sinks.kafka.worker.producer import producer_settings
from tpc.sinks.kafka.worker.row_messages import RowMessages
from tpc.sinks.kafka.worker.transaction import OpenTransaction

if TYPE_CHECKING:
    from tpc.sinks.kafka.transactional_sink import TransactionalSink

POLL_EVERY_ROWS = 8192
"""How often delivery reports are handled while rows are produced."""


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
        self._messages = RowMessages(sink, handle, schema, epoch_header)
        self._hint = hint
        self._open: OpenTransaction | None = None
        self._partitions: dict[str, int] = {}
        self._rows = 0
        self._size_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Pass the rows to the client, which sends them in the background."""
        if batch.num_rows == 0:
            return
        if self._open is None:
            settings = producer_settings(self._sink, self._hint)
            self._open = OpenTransaction(self._handle, settings, self._hint.get("released", {}))
        self._check_topics(batch)
        keys, values = self._messages.keys_and_values(batch)
        self._produce(batch, self._messages.messages(batch, keys, values), self._open)
        self._rows += batch.num_rows
        for column in (keys, values):
            self._size_bytes += 0 if column is None else pc.sum(pc.binary_length(column)).as_py() or 0

    def prepare(self) -> Committable | None:
        """Flush, count, write the marker; None if there was no row."""
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
        """Partition -> the first and the last offset of the branch's rows, with `TransactionalSink.tells_offsets`."""
        return {} if self._open is None else self._open.initialised.offsets

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
                messages.some(transaction.initialised.producer.produce, row, end)
            except BufferError as error:  # the queue is full: 500,000 rows or 256 MiB, unless `client=` changes that
                row = messages.refused
                is_empty = not transaction.wait_for_room()
                if is_empty and row == no_room:
                    why = "the client's queue is empty, and has no room for it; raise queue.buffering.max.kbytes"
                    raise self._messages.unfit(batch, row, "value", why) from error
                no_room = row if is_empty else -1
                continue
            except (KafkaException, SystemError) as error:
                raise transaction.refusal(error, self._messages.key_of(batch, messages.refused, self._rows)) from error
            row = end
            transaction.serve_reports()

    def _check_topics(self, batch: pa.RecordBatch) -> None:
        """Refuse topics and partitions that do not exist: the client would report them only after 30 s."""
        if self._sink.topic is not None:
            self._check_topic(batch, self._sink.topic)
            return
        for topic in self._messages.require_topics(batch):
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
                row = pc.index(batch.column(self._messages.columns.topic_column), topic).as_py()
                raise self._messages.unfit(batch, row, "topic", f"Kafka has no topic {topic!r}")
            self._partitions[topic] = count
        lowest, highest = self._messages.columns.partitions(batch, topic)
        if lowest < -1 or highest >= self._partitions[topic]:
            wrong = highest if highest >= self._partitions[topic] else lowest
            row = self._messages.columns.row_of_partition(batch, topic, wrong)
            raise self._messages.unfit(batch, row, "partition", f"topic {topic!r} has no partition {wrong}")
