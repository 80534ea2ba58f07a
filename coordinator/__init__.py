"""The imperative shell around the protocol: the intent log, recovery, the Spark driver, the supervisor.

Names are loaded when asked for, since Spark is not needed to read a log.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpc.coordinator.engine import EngineSettings
    from tpc.coordinator.local_log import LocalLog
    from tpc.coordinator.log import Log
    from tpc.coordinator.object_log import ObjectLog
    from tpc.coordinator.pipeline import Pipeline
    from tpc.coordinator.query import PipelineQuery
    from tpc.coordinator.sql_log import SqlLog
    from tpc.coordinator.supervisor import ExponentialDelay, FixedDelay, supervise

__all__ = [
    "EngineSettings",
    "ExponentialDelay",
    "FixedDelay",
    "LocalLog",
    "Log",
    "ObjectLog",
    "Pipeline",
    "PipelineQuery",
    "SqlLog",
    "supervise",
]

_MODULES = {
    "EngineSettings": "engine",
    "ExponentialDelay": "supervisor",
    "FixedDelay": "supervisor",
    "LocalLog": "local_log",
    "Log": "log",
    "ObjectLog": "object_log",
    "Pipeline": "pipeline",
    "PipelineQuery": "query",
    "SqlLog": "sql_log",
    "supervise": "supervisor",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
