"""The imperative shell around the protocol: the intent log, recovery, the Spark driver, the supervisor.

Names are loaded when asked for, since Spark is not needed to read a log.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpc.coordinator.engine import EngineSettings
    from tpc.coordinator.log.contract import Log
    from tpc.coordinator.log.local import LocalLog
    from tpc.coordinator.log.objects import ObjectLog
    from tpc.coordinator.log.sql import SqlLog
    from tpc.coordinator.pipeline import Pipeline
    from tpc.coordinator.query import PipelineQuery
    from tpc.coordinator.restarts import ExponentialDelay, FailureRate, FixedDelay
    from tpc.coordinator.supervisor import supervise

__all__ = [
    "EngineSettings",
    "ExponentialDelay",
    "FailureRate",
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
    "ExponentialDelay": "restarts",
    "FailureRate": "restarts",
    "FixedDelay": "restarts",
    "LocalLog": "log.local",
    "Log": "log.contract",
    "ObjectLog": "log.objects",
    "Pipeline": "pipeline",
    "PipelineQuery": "query",
    "SqlLog": "log.sql",
    "supervise": "supervisor",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
