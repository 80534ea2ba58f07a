"""What a job shows of itself over HTTP while it runs, as one value: `start(serve=tpc.Serve(...))`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.clock import SystemClock
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.kernel.listeners import Listener
from tpc.coordinator.operations.address import Address, address_of
from tpc.coordinator.operations.monitoring.health import ServedHealth
from tpc.coordinator.operations.monitoring.metrics_server import ServedMetrics
from tpc.coordinator.operations.page.tokens import read_token, require_token
from tpc.coordinator.operations.page.ui_server import ServedPage
from tpc.durations import LEAST_S, LENGTH_MAX_S, is_length
from tpc.errors import ConfigurationError
from tpc.settings import Elsewhere

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


@dataclass(frozen=True, kw_only=True)
class Serve:
    """What `Pipeline.start` and `Service.run` serve, from before the start writes anything until the job has ended.

    `metrics`, `health` and `page` are a port of `host`, or "HOST:PORT" ("[::1]:9464"); port 0 is any that is free,
    which the log names. Raises `ConfigurationError` for what cannot be served; ports are opened by the start.
    """

    metrics: int | str | None = None
    """`/metrics` for Prometheus. Neither a password nor encryption: for a network that you trust."""
    health: int | str | None = None
    """`/healthz` and `/readyz`. Neither a password nor encryption."""
    page: int | str | None = None
    """The page of `tpc ui`."""
    host: str = "127.0.0.1"
    """The address of those that have a port only; by default no other machine can reach it."""
    page_token: str | Elsewhere | None = field(default=None, repr=False)
    """What a browser must show to see the page, 16 characters at least; else that of TPC_UI_TOKEN. Needed, and read at
    once, where other machines can reach the page; else read by the start."""
    silent_after_s: float = 1800.0
    """An epoch under way for longer, in seconds, is no health."""
    registry: CollectorRegistry | None = None
    """Where metrics are counted, else prometheus_client's own. Without `metrics` it is not served."""

    def __post_init__(self) -> None:
        places = self._places()
        shared = [(one, other) for one in places for other in places if one < other and places[one] == places[other]]
        if both := [(one, other) for one, other in shared if places[one].port != 0]:
            [first, second] = both[0]
            raise ConfigurationError(
                f"{first} and {second} are both at {places[first]}", remedy="give each a port of its own."
            )
        if not is_length(self.silent_after_s, LEAST_S, LENGTH_MAX_S):
            raise ConfigurationError(f"silent_after_s={self.silent_after_s!r}", remedy="give seconds, more than 0.")
        if "page" not in places and self.page_token is not None:
            raise ConfigurationError(
                "page_token= without page=: neither metrics nor health ask for it",
                remedy="leave it out, or give page=.",
            )
        if "page" in places and not places["page"].is_of_this_machine:
            require_token(read_token(self.page_token), places["page"].host)

    def open(self, job: Job) -> list[Listener]:
        """Open what is asked for, or nothing; see `Observers.open`."""
        places, clock, listeners = self._places(), SystemClock(), list[Listener]()
        with ExitStack() as opened:

            def add(listener: Listener) -> None:
                listeners.append(listener)
                opened.callback(listener.close)

            if "metrics" in places or self.registry is not None:
                names = [sink.name for sink in job.sinks]
                add(ServedMetrics(job.id.name, names, clock, places.get("metrics"), self.registry))
            if "page" in places:
                add(ServedPage(job, places["page"], read_token(self.page_token)))
            if "health" in places:  # the last to be closed: until then it tells what the job has ended with
                add(ServedHealth(job.id.name, clock, places["health"], self.silent_after_s))
            opened.pop_all()
        return listeners

    def _places(self) -> dict[str, Address]:
        given = {"metrics": self.metrics, "health": self.health, "page": self.page}
        return {what: address_of(what, at, self.host) for what, at in given.items() if at is not None}
