"""Sources of a pipeline that Spark does not bring: each can say what it has read as a position, and read it again.

Names are loaded when asked for, so that a pipeline needs only the clients of the systems it reads from.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpc.coordinator.sources.postgres.source import PostgresSource, Since

__all__ = ["PostgresSource", "Since"]

_MODULES = {"PostgresSource": "postgres.source", "Since": "postgres.source"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
