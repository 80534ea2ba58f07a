"""Where metrics are counted and served: a registry, and an HTTP port of this process if one is asked for.

Loads prometheus_client only where metrics are wanted; without it they are refused before anything starts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.notices import Notice
from tpc.coordinator.kernel.transition import Transition
from tpc.coordinator.spark.source_lag import SourceLag
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class MetricsPlace:
    """What the user says. Without a registry it is prometheus_client's own."""

    port: int | None
    host: str
    registry: CollectorRegistry | None

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to count for."""
        return self.port is not None or self.registry is not None


class ServedMetrics:
    """The metrics of one pipeline; where the place has a port, also at `http://host:port/metrics` until `close`.

    Raises `ConfigurationError` where prometheus_client is missing or the port cannot be had.
    """

    def __init__(self, pipeline: str, sinks: Iterable[str], clock: Clock, place: MetricsPlace) -> None:
        try:
            import prometheus_client
        except ModuleNotFoundError:
            raise ConfigurationError(
                "prometheus_client is not installed", pipeline=pipeline, remedy="pip install 'tpc[metrics]'."
            ) from None
        from tpc.coordinator.operations.monitoring.metrics import Metrics

        registry = prometheus_client.REGISTRY if place.registry is None else place.registry
        self._serving = None
        if place.port is not None:
            try:
                self._serving = prometheus_client.start_http_server(place.port, addr=place.host, registry=registry)
            except (OSError, OverflowError) as error:
                raise ConfigurationError(
                    f"metrics cannot be served at {place.host}:{place.port}: {error}",
                    pipeline=pipeline,
                    remedy="give metrics_port= a port that is free, metrics_host= an address of this machine.",
                ) from error
            logger.info("metrics of %s: http://%s:%d/metrics", pipeline, place.host, self._serving[0].server_port)
        self._metrics = Metrics(registry, pipeline, sinks, clock)

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Count one step of the machine."""
        self._metrics.tell(transition, notice)

    def tell_of_sources(self, lag: SourceLag) -> None:
        """Show what waits in the sources."""
        self._metrics.tell_of_sources(lag)

    def close(self) -> None:
        """Close the port."""
        if self._serving is not None:
            server, thread = self._serving
            server.shutdown()
            server.server_close()
            thread.join(_CLOSE_TIMEOUT_S)
