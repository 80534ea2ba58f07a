"""The sources: for a service (`tpc.service`) Kafka, lines of a file, Python values; for a Spark query a table.

Names are loaded when asked for, so that a program needs only the clients of the systems it reads from. The contract is
`tpc.source`; a new source gets a line in `_MODULES`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpc.coordinator.service.sources.iterable import IterableSource
    from tpc.coordinator.service.sources.lines import LinesSource
    from tpc.sinks.kafka.source.source import KafkaSource
    from tpc.sinks.postgres.source.source import PostgresSource, Since

__all__ = ["IterableSource", "KafkaSource", "LinesSource", "PostgresSource", "Since"]

_MODULES = {
    "IterableSource": "tpc.coordinator.service.sources.iterable",
    "KafkaSource": "tpc.sinks.kafka.source.source",
    "LinesSource": "tpc.coordinator.service.sources.lines",
    "PostgresSource": "tpc.sinks.postgres.source.source",
    "Since": "tpc.sinks.postgres.source.source",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
