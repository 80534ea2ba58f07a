"""Two-phase-commit sinks for PySpark Structured Streaming: many systems, one decision per epoch, exactly once.

`tpc.pipeline(...)` is where users begin; `tpc.sinks` holds the sinks, `tpc.coordinator` the log and the supervisor.
This package itself is the protocol: pure Python, standard library only. It loads the other layers when asked.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tpc import errors
from tpc.errors import TpcError
from tpc.settings import Env, SecretFile, env, secret_file
from tpc.transactional import Transactional, make_transactional

if TYPE_CHECKING:
    from tpc.coordinator.operations.monitoring.log_lines import JsonFormatter, json_logging
    from tpc.coordinator.operations.monitoring.positions import Positions, positions
    from tpc.coordinator.service.epoch_trigger import seconds
    from tpc.coordinator.service.service import Service, service
    from tpc.coordinator.spark.pipeline import Pipeline, pipeline

__all__ = [
    "Env",
    "JsonFormatter",
    "Pipeline",
    "Positions",
    "SecretFile",
    "Service",
    "TpcError",
    "Transactional",
    "env",
    "errors",
    "json_logging",
    "make_transactional",
    "pipeline",
    "positions",
    "seconds",
    "secret_file",
    "service",
]

_LAZY = {
    "JsonFormatter": "operations.monitoring.log_lines",
    "Pipeline": "spark.pipeline",
    "Positions": "operations.monitoring.positions",
    "Service": "service.service",
    "json_logging": "operations.monitoring.log_lines",
    "pipeline": "spark.pipeline",
    "positions": "operations.monitoring.positions",
    "seconds": "service.epoch_trigger",
    "service": "service.service",
}
"""Name -> the module of `tpc.coordinator` in which it stands."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"tpc.coordinator.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'tpc' has no attribute {name!r}")
