"""Writes source offsets into one open transaction; runs in the coordinator's process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from tpc.errors import ConfigurationError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Writer
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC
from tpc.sinks.kafka.worker.producer import producer_settings
from tpc.sinks.kafka.worker.transaction import OpenTransaction

if TYPE_CHECKING:
    from tpc.sinks.kafka.transactional_sink import TransactionalSink

SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
"""One row per partition of a source: the offset is that of the next record to read."""


def offsets_batch(offsets: Mapping[str, Mapping[int, int]]) -> pa.RecordBatch:
    """The end offsets of an epoch as rows, ordered by topic and partition."""
    rows = [
        {"topic": topic, "partition": int(partition), "offset": offset}
        for topic, partitions in sorted(offsets.items())
        for partition, offset in sorted(partitions.items())
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


class KafkaOffsetsWriter(Writer):
    """One branch of offsets for `group`. The marker names Kafka's topic of groups: a source's topic may be deleted."""

    def __init__(
        self, sink: TransactionalSink, handle: Handle, schema: pa.Schema, hint: JSONObject, *, group: str
    ) -> None:
        check_offsets_schema(schema)
        self._sink = sink
        self._group = group
        self._handle = handle
        self._hint = hint
        self._offsets: list[tuple[str, int, int]] = []
        self._open: OpenTransaction | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Collect offsets; they are sent by `prepare`."""
        rows = batch.select(["topic", "partition", "offset"]).to_pylist()
        self._offsets.extend((row["topic"], row["partition"], row["offset"]) for row in rows)

    def prepare(self) -> Committable | None:
        """Put offsets and marker into a transaction; None without offsets."""
        from confluent_kafka import TopicPartition

        if not self._offsets:
            return None
        settings = producer_settings(self._sink, self._hint)
        self._open = OpenTransaction(self._handle, settings, self._hint.get("released", {}))
        try:
            self._open.send_offsets([TopicPartition(*offset) for offset in self._offsets], self._group)
        except BaseException:
            self._open.abort()
            raise
        return self._open.prepare(len(self._offsets), 0, (GROUPS_TOPIC, 0), topics=(), produced=0)

    def abort(self) -> None:
        """Undo the branch; a second call does nothing."""
        if self._open is not None:
            self._open.abort()


def check_offsets_schema(schema: pa.Schema) -> None:
    """Raise `ConfigurationError` unless rows are offsets: this sink does not take the pipeline's own rows."""
    if set(schema.names) != set(SCHEMA.names):
        raise ConfigurationError(
            f"a KafkaOffsetsSink takes offsets (topic, partition, offset), not rows with {', '.join(schema.names)}",
            remedy="pass it to pipeline.offsets_to(...); use KafkaSink to write rows.",
        )
