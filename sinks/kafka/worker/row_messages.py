"""Turns rows into messages, and finds the row that has no form as one; for the writer and for the validator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from tpc.errors import DataError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Validator, describe_row
from tpc.sinks.kafka.worker.handover import Handover
from tpc.sinks.kafka.worker.messages import ANY_PARTITION, MessageColumns
from tpc.sinks.kafka.worker.producer import producer_settings
from tpc.sinks.shared.arrow_json import json_objects
from tpc.sinks.shared.exact import REFUSALS, refused_value, require_valid
from tpc.support.arrow_rows import described, value_at

if TYPE_CHECKING:
    from tpc.sinks.kafka.transactional_sink import TransactionalSink


class RowMessages:
    """The messages of one branch. Errors name sink, epoch, column and key. `epoch_header`: see `KafkaSink`."""

    def __init__(self, sink: TransactionalSink, handle: Handle, schema: pa.Schema, epoch_header: str | None) -> None:
        self.columns = MessageColumns.of(schema, sink.topic)
        self._sink = sink
        self._handle = handle
        self.epoch_header = None if epoch_header is None else (epoch_header, str(handle.epoch).encode())

    def require_topics(self, batch: pa.RecordBatch) -> list[str]:
        """The topics that the rows name. Raises `DataError` for a row that names none."""
        try:
            topics = self.columns.topics(batch)
        except UnicodeError as error:
            raise self.refused(batch, error) from error
        if None in topics:
            column = batch.column(self.columns.topic_column)
            raise self.unfit(batch, pc.index(column.is_null(), True).as_py(), "topic", "the topic is NULL")
        return [topic for topic in topics if topic is not None]

    def keys_and_values(self, batch: pa.RecordBatch) -> tuple[pa.Array | None, pa.Array]:
        """Keys and values as bytes. Raises `DataError` for a row that has no form as a message."""
        if (nameless := self.columns.row_of_nameless_header(batch)) is not None:
            raise self.unfit(batch, nameless, "headers", "a header has no name")
        try:
            return self.columns.keys(batch), self.columns.values(batch)
        except REFUSALS as error:
            raise self.refused(batch, error) from error

    def messages(self, batch: pa.RecordBatch, keys: pa.Array | None, values: pa.Array) -> Handover:
        """The messages for the client. Raises `DataError` for invalid text."""
        try:
            return self.columns.messages(batch, keys, values, self.epoch_header)
        except REFUSALS as error:
            raise self.refused(batch, error) from error

    def key_of(self, batch: pa.RecordBatch, row: int, before: int = 0) -> Any:
        """What identifies a row: its key column, else its first columns. `before`: rows of earlier batches."""
        if self.columns.key is not None:
            return value_at(batch, batch.schema.names[self.columns.key], row)
        columns = [name for name in batch.schema.names if name not in ("value", "headers")][:3]
        return described(batch, row, columns) if columns else f"row {before + row} of the branch"

    def refused(self, batch: pa.RecordBatch, error: Exception) -> DataError:
        """The error for a value that has no form in a message: in the row as JSON, a header's name or a topic."""
        parts, names = self.columns, batch.schema.names
        as_text = [names[index] for index in (parts.headers, parts.topic_column) if index is not None]
        key = [] if parts.key is None else [names[parts.key]]

        def encode(some: pa.RecordBatch) -> None:
            require_valid(some)
            json_objects(some.select([name for name in parts.json_columns if name in some.schema.names]))

        columns = [*parts.json_columns, *as_text]
        return refused_value(batch, encode, error, handle=self._handle, key=key, columns=columns)

    def unfit(self, batch: pa.RecordBatch, row: int, column: str, why: str, before: int = 0) -> DataError:
        """The error for one row."""
        key = self.key_of(batch, row, before)
        return DataError(
            f"Kafka cannot take the row with {describe_row({'key': key}, ['key'])}: {why}",
            column=column,
            key=key,
            pipeline=str(self._handle.pipeline),
            epoch=self._handle.epoch,
            sink=self._sink.name,
        )


class MessageValidator(Validator):
    """Checks that rows have a form as messages that the client accepts, but not that topic and partition exist."""

    def __init__(
        self,
        sink: TransactionalSink,
        handle: Handle,
        schema: pa.Schema,
        hint: JSONObject,
        *,
        epoch_header: str | None,
    ) -> None:
        self._messages = RowMessages(sink, handle, schema, epoch_header)
        self._sink = sink
        self._hint = hint
        self._most_bytes: int | None = None

    def validate(self, batch: pa.RecordBatch) -> None:
        """See `Validator`."""
        messages = self._messages
        topics: list[str | None] = [*messages.require_topics(batch)]
        for topic in topics or [None]:
            self._require_partition(batch, topic)
        keys, values = messages.keys_and_values(batch)
        if self._most_bytes is None:
            settings = producer_settings(self._sink, self._hint)
            self._most_bytes = int(settings.configuration()["message.max.bytes"])
        sizes = messages.columns.sizes_bytes(batch, keys, values, messages.epoch_header)
        if (longest := pc.max(sizes).as_py()) is not None and longest > self._most_bytes:
            row = pc.index(sizes, longest).as_py()
            why = f"it is a message of {longest} bytes, and the client takes {self._most_bytes}"
            raise messages.unfit(batch, row, "value", why)

    def _require_partition(self, batch: pa.RecordBatch, topic: str | None) -> None:
        lowest, _ = self._messages.columns.partitions(batch, topic or "")
        if lowest < ANY_PARTITION:
            row = self._messages.columns.row_of_partition(batch, topic or "", lowest)
            raise self._messages.unfit(batch, row, "partition", f"there is no partition {lowest}")
