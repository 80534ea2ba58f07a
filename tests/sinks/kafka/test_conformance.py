"""The conformance kit on the Kafka sink."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow

from tests.sinks.kafka.kit import KafkaKit
from tpc.sink import Sink
from tpc.sinks.kafka.sink import KafkaSink


def text(found: bytes | None) -> str | bytes | None:
    try:
        return None if found is None else found.decode()
    except UnicodeDecodeError:
        return found


class TestKafkaSink(KafkaKit):
    schema = pyarrow.schema([("key", pyarrow.string()), ("value", pyarrow.string())])
    large_branch_rows = 50_000
    required_columns = ()
    numbers = itertools.count(1)

    def make_sink(self, tmp_path: Path, name: str = "a") -> KafkaSink:
        return KafkaSink(
            self.topic, servers=self.kafka.bootstrap, name=name, client=self.client, timeout_s=self.timeout_s
        )

    def row(self, number: int) -> dict[str, Any]:
        return {"key": str(number), "value": f"value {number}"}

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        self.wait_until_ended()
        messages = self.kafka.read(self.topic)
        return [{"key": text(message.key()), "value": text(message.value())} for message in messages]

    def foreign_write(self, sink: Sink) -> None:
        self.kafka.produce(self.topic, [("else", f"of somebody else {next(self.numbers)}")])

    def bad_batch(self) -> pyarrow.RecordBatch:
        """A message of 2 MB: the topic takes 1."""
        return pyarrow.RecordBatch.from_pylist([{"key": "large", "value": "x" * 2_000_000}], schema=self.schema)
