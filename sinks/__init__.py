"""The sinks: Kafka, PostgreSQL, MongoDB, files. Each knows the contract (`tpc.sink`), none knows another.

Names are loaded when asked for, so that a pipeline needs only the clients of the systems it writes to.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpc.sinks.files import FileSink
    from tpc.sinks.kafka import KafkaSink
    from tpc.sinks.kafka_offsets import KafkaOffsetsSink
    from tpc.sinks.mongo import MongoSink
    from tpc.sinks.postgres import PostgresSink

__all__ = ["FileSink", "KafkaOffsetsSink", "KafkaSink", "MongoSink", "PostgresSink"]

_MODULES = {
    "FileSink": "files",
    "KafkaOffsetsSink": "kafka_offsets",
    "KafkaSink": "kafka",
    "MongoSink": "mongo",
    "PostgresSink": "postgres",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
