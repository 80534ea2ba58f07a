"""Where the pages are served: the address, the token, and the threads that watch, until it is closed."""

from __future__ import annotations

from collections.abc import Sequence

from tpc.coordinator.kernel.clock import SystemClock
from tpc.coordinator.operations.address import Address
from tpc.coordinator.operations.bounded_server import BoundedServer
from tpc.coordinator.operations.page.app import make_app
from tpc.coordinator.operations.page.events import Changes, Noticed
from tpc.coordinator.operations.page.log_watcher import LogWatch, Place, Watched
from tpc.coordinator.operations.page.sink_answers import AskedSinks, PipelineSinks
from tpc.coordinator.operations.page.tokens import require_token

EVERY_S = 2.0
"""How often each log is looked at."""

Shown = tuple[Place, PipelineSinks | None]
"""A log, and the sinks that may be asked, where they are known."""


class Site:
    """The pages over the logs at `places`.

    Raises `ConfigurationError` for a port that cannot be had, and for an address of others without a token.
    """

    def __init__(self, places: Sequence[Shown], address: Address, token: str | None) -> None:
        require_token(token, address.host)
        clock, changes = SystemClock(), Changes()
        watched = [
            Watched(number, place, clock, None if of is None else AskedSinks(of.pipeline, of.sinks, clock))
            for number, (place, of) in enumerate(places)
        ]
        app = make_app(watched, clock, changes, token)
        remedy = "give a port that is free (0: any), and an address of this machine."
        self._server = BoundedServer("the page", "tpc-ui", address, app, remedy=remedy)
        self.url = f"http://{self._server.address}/"
        self._watch = LogWatch(watched, EVERY_S, Noticed(changes, clock))
        self._watch.start()

    def close(self) -> None:
        """Close the port, and look no more."""
        self._watch.stop()
        self._server.close()
