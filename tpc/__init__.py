"""Two-phase commit across sinks, in a Spark query or a plain Python process: one decision per epoch, exactly once.

Users begin with `tpc.pipeline(...)` on Spark or `tpc.service(...)` without it. `tpc.sinks` and `tpc.sources` hold what
they write to and read from, `tpc.windows` windows of event time, `tpc.coordinator` the log and the supervisor.

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
    from tpc.coordinator.operations.monitoring.json_lines import JsonFormatter, json_logging
    from tpc.coordinator.operations.monitoring.positions import Positions, positions
    from tpc.coordinator.operations.serve import Serve
    from tpc.coordinator.service.epoch_trigger import EpochTrigger, seconds
    from tpc.coordinator.service.service import Service, service
    from tpc.coordinator.spark.pipeline import Pipeline, pipeline

__all__ = [
    "Env",
    "EpochTrigger",
    "JsonFormatter",
    "Pipeline",
    "Positions",
    "SecretFile",
    "Serve",
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
    "EpochTrigger": "service.epoch_trigger",
    "JsonFormatter": "operations.monitoring.json_lines",
    "Pipeline": "spark.pipeline",
    "Positions": "operations.monitoring.positions",
    "Serve": "operations.serve",
    "Service": "service.service",
    "json_logging": "operations.monitoring.json_lines",
    "pipeline": "spark.pipeline",
    "positions": "operations.monitoring.positions",
    "seconds": "service.epoch_trigger",
    "service": "service.service",
}
"""Name -> the module of `tpc.coordinator` that defines it."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"tpc.coordinator.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'tpc' has no attribute {name!r}")
