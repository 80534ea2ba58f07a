"""Where metrics are counted and served: a registry, and an HTTP port of this process if one is asked for.

Loads prometheus_client only where metrics are wanted; without it they are refused before anything starts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.notices import Notice
from tpc.coordinator.kernel.source_lag import SourceLag
from tpc.coordinator.kernel.transition import Transition
from tpc.coordinator.operations.address import Address
from tpc.coordinator.operations.bounded_server import Answer, BoundedServer, Request, get_only
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

logger = logging.getLogger(__name__)


class ServedMetrics:
    """The metrics of one pipeline, in `registry` (else prometheus_client's own).

    With an address they are served at `http://ADDRESS/metrics` until `close`. Raises `ConfigurationError` where
    prometheus_client is missing or the port cannot be had.
    """

    def __init__(
        self,
        pipeline: str,
        sinks: Iterable[str],
        clock: Clock,
        address: Address | None,
        registry: CollectorRegistry | None,
    ) -> None:
        try:
            import prometheus_client
        except ModuleNotFoundError:
            raise ConfigurationError(
                "prometheus_client is not installed", pipeline=pipeline, remedy="pip install 'tpc[metrics]'."
            ) from None
        from tpc.coordinator.operations.monitoring.metrics import Metrics

        registry = prometheus_client.REGISTRY if registry is None else registry
        self._server = None
        if address is not None:
            self._app = prometheus_client.make_wsgi_app(registry)
            remedy = "give metrics= (of `tpc run` --metrics-port) a free port, at an address of this machine."
            self._server = BoundedServer(
                "metrics", "tpc-metrics", address, self._answer, remedy=remedy, pipeline=pipeline
            )
            logger.info("metrics of %s: http://%s/metrics", pipeline, self._server.address)
        try:
            self._metrics = Metrics(registry, pipeline, sinks, clock)
        except BaseException:
            self.close()
            raise

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Count one step of the machine."""
        self._metrics.tell(transition, notice)

    def tell_of_sources(self, lag: SourceLag) -> None:
        """Show what waits in the sources."""
        self._metrics.tell_of_sources(lag)

    def close(self) -> None:
        """Close the port."""
        if self._server is not None:
            self._server.close()

    def _answer(self, request: Request) -> Answer:
        """What prometheus_client's own application answers."""
        if refusal := get_only(request):
            return refusal
        begun: list[tuple[str, list[tuple[str, str]]]] = []
        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query,
            "HTTP_ACCEPT": request.headers.get("accept", ""),
            "HTTP_ACCEPT_ENCODING": request.headers.get("accept-encoding", ""),
        }
        body = b"".join(self._app(environ, lambda status, headers: begun.append((status, headers))))
        [(status, headers)] = begun
        named = dict(headers)
        content_type = named.pop("Content-Type", "text/plain; charset=utf-8")
        return Answer(int(status.split()[0]), body, content_type, named)
