"""Who is told of a pipeline that starts: the log, and callbacks, metrics, health and page as far as they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tpc.coordinator.kernel.clock import SystemClock
from tpc.coordinator.kernel.observing import Listener, Observing
from tpc.coordinator.operations.monitoring.callbacks import Callbacks, OnComplete, OnDecisionNeeded
from tpc.coordinator.operations.monitoring.health import HealthPlace, ServedHealth
from tpc.coordinator.operations.monitoring.log_lines import LogLines
from tpc.coordinator.operations.monitoring.metrics_server import MetricsPlace, ServedMetrics
from tpc.coordinator.operations.page.ui_server import PagePlace, ServedPage
from tpc.coordinator.spark.source_lag import SourceLag, SourceLagNote


def observing(
    pipeline: str,
    sinks: Iterable[str],
    directory: Path,
    on_complete: Sequence[OnComplete],
    on_decision_needed: Sequence[OnDecisionNeeded],
    metrics: MetricsPlace,
    health: HealthPlace,
    page: PagePlace,
) -> Observing:
    """The observer for the engine of `pipeline`. Raises `ConfigurationError` where a port cannot be had; opens none."""
    clock = SystemClock()
    listeners: list[Listener] = [LogLines()]
    hear_of_sources: list[Callable[[SourceLag], None]] = [SourceLagNote(directory).keep]
    with ExitStack() as opened:
        if metrics.is_wanted:
            served = ServedMetrics(pipeline, sinks, clock, metrics)
            opened.callback(served.close)
            listeners.append(served)
            hear_of_sources.append(served.tell_of_sources)
        if on_complete or on_decision_needed:
            listeners.append(Callbacks(on_complete, on_decision_needed, directory))
        if page.port is not None:
            listeners.append(ServedPage(pipeline, page))
            opened.callback(listeners[-1].close)
        if health.port is not None:  # the last to be closed: until then it tells what the pipeline has ended with
            listeners.append(ServedHealth(pipeline, clock, health))
        opened.pop_all()
    return Observing(clock, listeners, hear_of_sources)
