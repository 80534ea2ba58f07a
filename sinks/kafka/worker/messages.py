"""Which columns make a Kafka message, and a batch of Arrow rows in the form that `Producer.produce` takes.

The contract is that of Spark's own Kafka sink: `key` and `value` (string or binary), `headers`
(array<struct<key: string, value: binary>>), `topic` (string) and `partition` (int), each if present; other columns
beside a `value` are ignored. Without a `value` column the value is the row as JSON, without the columns that are other
parts of the message. As in Spark, a topic given to the sink has precedence over the column; the column is then data
like any other.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tpc.errors import ConfigurationError
from tpc.sinks.kafka.worker.handover import Handover, Headers
from tpc.sinks.shared.arrow_json import check_json_names, check_json_type, json_objects

MESSAGE_OVERHEAD_BYTES = 36
"""The bytes that librdkafka adds to key, value and headers before it compares a message with its limit."""
ANY_PARTITION = -1
"""The client's partitioner chooses."""


@dataclass(frozen=True)
class MessageColumns:
    """The index of the column of each part of a message; None for a part without a column."""

    topic: str | None
    """The topic of all rows; None if the column `topic` names it."""
    key: int | None
    value: int | None
    headers: int | None
    partition: int | None
    topic_column: int | None
    json_columns: tuple[str, ...]

    @classmethod
    def of(cls, schema: pa.Schema, topic: str | None) -> MessageColumns:
        """The columns of a schema. Raises `ConfigurationError` for a column of a type that Kafka cannot take."""
        index = {name: number for number, name in enumerate(schema.names)}
        if topic is None and "topic" not in index:
            raise ConfigurationError(
                "rows have no `topic` column and the sink has no topic",
                remedy="pass KafkaSink('topic', ...), or select a string column named topic.",
            )
        for name, (accepts, wanted) in _TYPES.items():
            if name in index and not (name == "topic" and topic is not None):
                _require(accepts(schema.field(name).type), name, schema.field(name).type, wanted)
        special = {"key", "headers", "partition"} | (set() if topic is not None else {"topic"})
        fields = () if "value" in index else tuple(name for name in schema.names if name not in special)
        check_json_names([name for name in schema.names if name in fields], "the row")
        for name in fields:
            check_json_type(schema.field(name).type, name)
        return cls(
            topic,
            index.get("key"),
            index.get("value"),
            index.get("headers"),
            index.get("partition"),
            index["topic"] if topic is None else None,
            fields,
        )

    def topics(self, batch: pa.RecordBatch) -> list[str | None]:
        """The distinct topics of a batch whose rows name them; empty if the sink has one topic."""
        if self.topic_column is None:
            return []
        distinct: list[str | None] = pc.unique(batch.column(self.topic_column)).to_pylist()
        return distinct

    def partitions(self, batch: pa.RecordBatch, topic: str) -> tuple[int, int]:
        """The least and the greatest partition number that rows of `topic` name; -1 if they name none."""
        if self.partition is None:
            return ANY_PARTITION, ANY_PARTITION
        column = batch.column(self.partition).filter(self._rows_of(batch, topic))
        bounds = pc.min_max(pc.fill_null(column, ANY_PARTITION)).as_py()
        return bounds["min"], bounds["max"]

    def row_of_partition(self, batch: pa.RecordBatch, topic: str, partition: int) -> int:
        """The first row of `topic` that names `partition`."""
        asks = pc.equal(pc.fill_null(batch.column(self.partition), ANY_PARTITION), partition)
        return int(pc.index(pc.and_(asks, self._rows_of(batch, topic)), True).as_py())

    def _rows_of(self, batch: pa.RecordBatch, topic: str) -> pa.Array:
        if self.topic_column is None:
            return pa.array([True] * batch.num_rows)
        return pc.equal(batch.column(self.topic_column), topic)

    def row_of_nameless_header(self, batch: pa.RecordBatch) -> int | None:
        """The first row with a header without a name; the client would name it `None`."""
        if self.headers is None:
            return None
        offsets, pairs = _pairs(batch.column(self.headers))
        names = pairs.field(0)
        return bisect_right(offsets, pc.index(names.is_null(), True).as_py()) - 1 if names.null_count else None

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """The message values as binary."""
        column = json_objects(batch.select(list(self.json_columns))) if self.value is None else batch.column(self.value)
        return _binary(column)

    def keys(self, batch: pa.RecordBatch) -> pa.Array | None:
        """The message keys as binary; None without a key column."""
        return None if self.key is None else _binary(batch.column(self.key))

    def sizes_bytes(
        self, batch: pa.RecordBatch, keys: pa.Array | None, values: pa.Array, epoch_header: tuple[str, bytes] | None
    ) -> pa.Array:
        """The size of each message, as the client compares it with `message.max.bytes`."""
        sizes = pc.fill_null(pc.binary_length(values), 0)
        if keys is not None:
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(keys), 0))
        if self.headers is not None:
            sizes = pc.add(sizes, _header_bytes(batch.column(self.headers)))
        fixed_bytes = MESSAGE_OVERHEAD_BYTES
        if epoch_header is not None:
            name, epoch = (pa.array([len(part)], pa.int64()) for part in (epoch_header[0].encode(), epoch_header[1]))
            fixed_bytes += _pair_bytes(name, epoch)[0].as_py()
        return pc.add(sizes, pa.scalar(fixed_bytes, pa.int64()))

    def messages(
        self, batch: pa.RecordBatch, keys: pa.Array | None, values: pa.Array, epoch_header: tuple[str, bytes] | None
    ) -> Handover:
        """The messages for the client."""
        topics = repeat(self.topic) if self.topic_column is None else batch.column(self.topic_column).to_pylist()
        partitions = repeat(ANY_PARTITION) if self.partition is None else _partitions(batch[self.partition])
        headers: Any = repeat(None if epoch_header is None else [epoch_header])
        if self.headers is not None:
            headers = _headers(batch.column(self.headers), epoch_header)
        key_cells = repeat(None) if keys is None else cells(keys)
        return Handover(topics, cells(values), key_cells, partitions, headers)


def cells(column: pa.Array) -> list[bytes | None]:
    """The values of a large binary array, sliced from its buffers: three times as fast as `to_pylist`."""
    _, offsets, data = column.buffers()
    if data is None:
        empty: list[bytes | None] = column.to_pylist()
        return empty
    ends = memoryview(offsets).cast("q")[column.offset : column.offset + len(column) + 1].tolist()
    first = ends[0]
    if first:
        ends = [end - first for end in ends]
    content = memoryview(data)[first : first + ends[-1]].tobytes()  # for a slice only its own bytes
    values: list[bytes | None] = [content[start:end] for start, end in pairwise(ends)]
    if column.null_count:
        for row in pc.indices_nonzero(column.is_null()).to_pylist():
            values[row] = None
    return values


def _binary(column: pa.Array) -> pa.Array:
    return pc.cast(column, pa.large_binary())


def _partitions(column: pa.Array) -> list[int]:
    numbers: list[int] = pc.fill_null(column, ANY_PARTITION).to_pylist()
    return numbers


def _headers(column: pa.Array, epoch_header: tuple[str, bytes] | None) -> list[Headers | None]:
    """The headers of every row. Elements come from the flat child arrays: a dict per header would be slow."""
    offsets, pairs = _pairs(column)
    flat: Headers = list(zip(pairs.field(0).to_pylist(), pairs.field(1).to_pylist(), strict=True))
    added: Headers = [] if epoch_header is None else [epoch_header]
    return [
        (flat[start:end] + added if there else added) or None
        for (start, end), there in zip(pairwise(offsets), column.is_valid().to_pylist(), strict=True)
    ]


def _header_bytes(column: pa.Array) -> pa.Array:
    """The bytes of each row's headers as they are sent."""
    offsets, pairs = _pairs(column)
    lengths = [pc.fill_null(pc.binary_length(_binary(pairs.field(part))), 0) for part in (0, 1)]
    ends = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(_pair_bytes(*lengths))])
    return pc.subtract(ends.take(pa.array(offsets[1:], pa.int64())), ends.take(pa.array(offsets[:-1], pa.int64())))


def _pair_bytes(name_bytes: pa.Array, value_bytes: pa.Array) -> pa.Array:
    """A name and a value, each after its length as a zigzag varint: 7 bits per byte."""
    size = pc.add(name_bytes, value_bytes)
    for length in (name_bytes, value_bytes):
        for least in (0, 64, 8192, 1_048_576, 134_217_728):
            size = pc.add(size, pc.cast(pc.greater_equal(length, least), pa.int64()))
    return size


def _pairs(column: pa.Array) -> tuple[list[int], pa.Array]:
    """The headers of the column's rows (for a slice only its own), and the offsets at which each row's begin."""
    offsets = column.offsets.to_pylist()
    first = offsets[0]
    return [offset - first for offset in offsets], column.values.slice(first, offsets[-1] - first)


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    tests = (types.is_string, types.is_large_string, types.is_string_view, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_headers(kind: pa.DataType) -> bool:
    if not (types.is_list(kind) and types.is_struct(kind.value_type) and kind.value_type.num_fields == 2):
        return False
    key, value = kind.value_type
    return (key.name, value.name) == ("key", "value") and _is_text(key.type) and _is_text_or_bytes(value.type)


_TYPES: dict[str, tuple[Any, str]] = {
    "key": (_is_text_or_bytes, "string or binary"),
    "value": (_is_text_or_bytes, "string or binary"),
    "headers": (_is_headers, "array<struct<key: string, value: binary>>"),
    "topic": (_is_text, "string"),
    "partition": (types.is_integer, "int"),
}


def _require(fits: bool, column: str, kind: pa.DataType, wanted: str) -> None:
    if not fits:
        raise ConfigurationError(
            f"column {column!r} has type {kind}; Kafka takes {wanted}",
            remedy="convert it before it is written, rename it, or leave it out with select=.",
        )
