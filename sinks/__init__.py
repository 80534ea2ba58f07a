"""The sinks: Kafka, PostgreSQL, MongoDB, files, effects outside. Each knows the contract, none another.

Names are loaded when asked for, so that a pipeline needs only the clients of the systems it writes to.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpc.sinks.effects.effect import Effect, EffectRefusedError, EffectRetry, EffectUnavailableError
    from tpc.sinks.effects.sink import EffectSink
    from tpc.sinks.files.sink import FileSink
    from tpc.sinks.kafka.changelog.topic import KafkaChangelog
    from tpc.sinks.kafka.offsets.sink import KafkaOffsetsSink
    from tpc.sinks.kafka.sink import KafkaSink
    from tpc.sinks.mongo.sink import MongoSink
    from tpc.sinks.postgres.sink import PostgresSink

__all__ = [
    "Effect",
    "EffectRefusedError",
    "EffectRetry",
    "EffectSink",
    "EffectUnavailableError",
    "FileSink",
    "KafkaChangelog",
    "KafkaOffsetsSink",
    "KafkaSink",
    "MongoSink",
    "PostgresSink",
]

_MODULES = {
    "Effect": "effects.effect",
    "EffectRefusedError": "effects.effect",
    "EffectRetry": "effects.effect",
    "EffectSink": "effects.sink",
    "EffectUnavailableError": "effects.effect",
    "FileSink": "files.sink",
    "KafkaChangelog": "kafka.changelog.topic",
    "KafkaOffsetsSink": "kafka.offsets.sink",
    "KafkaSink": "kafka.sink",
    "MongoSink": "mongo.sink",
    "PostgresSink": "postgres.sink",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
