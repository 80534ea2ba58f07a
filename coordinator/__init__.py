"""The imperative shell around the protocol: the intent log, recovery, the Spark driver, the supervisor.

Names are loaded when asked for, since Spark is not needed to read a log.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpc.coordinator.kernel.engine import EngineSettings
    from tpc.coordinator.kernel.log.contract import Log
    from tpc.coordinator.kernel.log.local import LocalLog
    from tpc.coordinator.kernel.log.objects import ObjectLog
    from tpc.coordinator.kernel.log.places import open_log
    from tpc.coordinator.kernel.log.sql import SqlLog
    from tpc.coordinator.operations.supervision.exit_codes import exit_code_for
    from tpc.coordinator.operations.supervision.restarts import ExponentialDelay, FailureRate, FixedDelay
    from tpc.coordinator.operations.supervision.supervisor import Stop, supervise
    from tpc.coordinator.spark.pipeline import Pipeline
    from tpc.coordinator.spark.query import PipelineQuery
    from tpc.coordinator.spark.sigterm import await_end

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
    "Stop",
    "await_end",
    "exit_code_for",
    "open_log",
    "supervise",
]

_MODULES = {
    "EngineSettings": "kernel.engine",
    "ExponentialDelay": "operations.supervision.restarts",
    "FailureRate": "operations.supervision.restarts",
    "FixedDelay": "operations.supervision.restarts",
    "LocalLog": "kernel.log.local",
    "Log": "kernel.log.contract",
    "ObjectLog": "kernel.log.objects",
    "Pipeline": "spark.pipeline",
    "PipelineQuery": "spark.query",
    "SqlLog": "kernel.log.sql",
    "Stop": "operations.supervision.supervisor",
    "await_end": "spark.sigterm",
    "exit_code_for": "operations.supervision.exit_codes",
    "open_log": "kernel.log.places",
    "supervise": "operations.supervision.supervisor",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
