"""Writes an epoch's changes as messages of one Kafka transaction; the committable holds the position after them.

`KafkaWriter` makes the transaction. This module adds each key's partition, the form of the values, and the position.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from tpc.changelog import POSITION, Row, position_told
from tpc.errors import StateLostError, TransientError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Writer
from tpc.sinks.kafka.changelog.claims import BEGINS
from tpc.sinks.kafka.changelog.messages import partition_of, value_of
from tpc.sinks.kafka.worker.writer import KafkaWriter

if TYPE_CHECKING:
    from tpc.sinks.kafka.changelog.sink import ChangelogSink

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32())])


class ChangelogWriter(Writer):
    """One branch."""

    def __init__(self, sink: ChangelogSink, handle: Handle, hint: JSONObject) -> None:
        self._sink = sink
        self._handle = handle
        self._kafka = KafkaWriter(sink, handle, SCHEMA, hint, epoch_header=None)
        self._partitions: int = hint["partitions"]
        self._before: JSONObject | None = None
        self._after: JSONObject = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Pass the changes to the client."""
        self._before, self._after = position_told(batch.schema.metadata)
        if self._before is not None:
            self._partitions = self._before["partitions"]
        rows = list(map(Row, *(batch.column(name).to_pylist() for name in Row._fields)))
        columns = [
            [row.key for row in rows],
            list(map(value_of, rows)),
            [partition_of(row.key, self._partitions) for row in rows],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        self._kafka.write(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))

    def prepare(self) -> Committable | None:
        """Prepare the branch, with the position after it. On an error the branch is aborted."""
        made = self._kafka.prepare()
        self.flush_seconds = self._kafka.flush_seconds
        if made is None:
            return None
        try:
            begins = {} if self._before is not None else {BEGINS: True}
            return replace(made, data={**made.data, POSITION: self._position(), **begins})
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Undo the branch."""
        self._kafka.abort()

    def _position(self) -> JSONObject:
        before = self._before or {"first": {}, "end": {}}
        first, end = dict(before["first"]), dict(before["end"])
        for partition, (lowest, highest) in sorted(self._kafka.offsets.items()):
            name = str(partition)
            if lowest < 0:
                raise TransientError(
                    "a broker acknowledged a change without its offset",
                    epoch=self._handle.epoch,
                    sink=self._sink.name,
                )
            if lowest < end.get(name, 0):
                raise StateLostError(
                    f"partition {name} of the changelog {self._sink.topic!r} goes on at offset {lowest}, and it had "
                    f"come to {end[name]}: the topic was recreated",
                    epoch=self._handle.epoch,
                    sink=self._sink.name,
                    remedy="nothing of this epoch is decided. Bring the old topic back, or remove the changelog "
                    f"(`tpc remove MODULE:SERVICE {self._sink.name} --reason TEXT`) and give the state a new topic.",
                )
            first.setdefault(name, lowest)
            end[name] = highest + 1
        place = {"topic": self._sink.topic, "partitions": self._partitions}
        return {**place, "first": first, "end": end, **self._after}
