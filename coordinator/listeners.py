"""Who is told of a pipeline that starts: the log, and its callbacks and metrics as far as the user wants them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tpc.coordinator.callbacks import Callbacks, OnComplete, OnDecisionNeeded
from tpc.coordinator.clock import SystemClock
from tpc.coordinator.log_lines import LogLines
from tpc.coordinator.metrics_server import MetricsPlace, ServedMetrics
from tpc.coordinator.observing import Listener, Observing


def observing(
    pipeline: str,
    sinks: Iterable[str],
    directory: Path,
    on_complete: Sequence[OnComplete],
    on_decision_needed: Sequence[OnDecisionNeeded],
    metrics: MetricsPlace,
) -> Observing:
    """The observer for the engine of `pipeline`. Raises `ConfigurationError` where metrics cannot be had."""
    clock = SystemClock()
    listeners: list[Listener] = [LogLines()]
    if metrics.is_wanted:
        listeners.append(ServedMetrics(pipeline, sinks, clock, metrics))
    if on_complete or on_decision_needed:
        listeners.append(Callbacks(on_complete, on_decision_needed, directory))
    return Observing(clock, listeners)
