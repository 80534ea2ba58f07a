"""Whether a pipeline lives and whether it is ready: judged from the engine's transitions, served over HTTP.

Asks neither sink nor log, and tells no text of an error: what a driver says may show data.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import socketserver
import threading
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from typing import Any

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.notices import Notice, Turn
from tpc.coordinator.kernel.transition import Transition
from tpc.errors import ConfigurationError
from tpc.events import Opened
from tpc.lengths import LEAST_S, LENGTH_MAX_S, is_length
from tpc.states import MachineState, Phase
from tpc.support.deadlines import Deadline

logger = logging.getLogger(__name__)

LIVENESS = "/healthz"
READINESS = "/readyz"
OK, UNAVAILABLE, NOT_FOUND = 200, 503, 404


@dataclass(frozen=True)
class _Seen:
    """What is known of the engine. Replaced as a whole, since it is read in other threads."""

    phase: str = Phase.NEW.value
    generation: int = 0
    last_complete: int | None = None
    epoch: int | None = None
    """The epoch that is under way: a batch that Spark waits for, or a decided one that a start finishes."""
    since: float = 0.0
    """When it began to be under way, by the clock that never goes back."""
    is_recovered: bool = False
    ended: Notice | None = None
    """What the engine has ended with."""


class Health:
    """The answers for one pipeline. A listener of its engine (`observing`)."""

    def __init__(self, pipeline: str, silent_after_s: float, clock: Clock) -> None:
        self._pipeline = pipeline
        self._silent_after_s = silent_after_s
        self._clock = clock
        self._seen = _Seen()

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Look at one step of the machine."""
        seen, state = self._seen, transition.after
        if isinstance(transition.event, Opened):
            seen = replace(seen, ended=None)  # a claim that came to nothing is made again
        epoch = _under_way(state)
        if epoch != seen.epoch:
            seen = replace(seen, epoch=epoch, since=self._clock.monotonic())
        if state.phase is Phase.STOPPED and notice is not None:
            seen = replace(seen, ended=notice)
        self._seen = replace(
            seen,
            phase=state.phase.value,
            generation=state.generation,
            last_complete=state.last_complete,
            is_recovered=seen.is_recovered or (notice is not None and notice.turn is Turn.RECOVERED),
        )

    def close(self) -> None:
        """Nothing is held."""

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """Status and body for a path; `NOT_FOUND` for one that is neither `LIVENESS` nor `READINESS`."""
        seen = self._seen
        if path not in (LIVENESS, READINESS):
            return NOT_FOUND, {"reason": f"there are {LIVENESS} and {READINESS}"}
        if seen.ended is not None:
            return UNAVAILABLE, self._body(seen, "ended", **_end(seen.ended))
        if path == READINESS:
            if seen.is_recovered:
                return OK, self._body(seen, "ready")
            return UNAVAILABLE, self._body(seen, "starting", reason="recovery is not over")
        under_way_s = self._clock.monotonic() - seen.since
        if seen.epoch is not None and under_way_s > self._silent_after_s:
            reason = f"epoch {seen.epoch} is under way for {under_way_s:.0f} s, and no epoch was complete meanwhile"
            return UNAVAILABLE, self._body(seen, "silent", reason=reason)
        return OK, self._body(seen, "alive")

    def _body(self, seen: _Seen, status: str, **more: Any) -> dict[str, Any]:
        return {
            "status": status,
            "pipeline": self._pipeline,
            "generation": seen.generation,
            "phase": seen.phase,
            "epoch": seen.epoch,
            "last_complete": seen.last_complete,
            **more,
        }


def _under_way(state: MachineState) -> int | None:
    if state.phase in (Phase.NEW, Phase.READY, Phase.STOPPED):
        return None
    return state.pending.epoch if state.epoch is None and state.pending is not None else state.epoch


def _end(notice: Notice) -> dict[str, Any]:
    """The error by its class only: `what` of a sink's error may show rows or addresses."""
    what = {} if notice.sink is None else {"sink": notice.sink}
    return {"reason": f"the pipeline has ended with {type(notice.error).__name__}", "epoch": notice.epoch, **what}


# The server: a port of this process, opened before anything starts, closed with the query.
#
# Bounded in every way: so many requests at once, so many bytes and seconds for each. There is neither a password nor
# encryption.

REQUESTS_MAX = 8
"""Requests that are answered at once; a connection beyond them is closed."""
REQUEST_TIMEOUT_S = 2.0
HEAD_BYTES_MAX = 8192
_CLOSE_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class HealthPlace:
    """What the user says. Without a port nothing is served."""

    port: int | None
    host: str
    silent_after_s: float


class ServedHealth:
    """The health of one pipeline at `http://host:port` until `close`. Raises `ConfigurationError` without the port."""

    def __init__(self, pipeline: str, clock: Clock, place: HealthPlace) -> None:
        assert place.port is not None
        if not is_length(place.silent_after_s, LEAST_S, LENGTH_MAX_S):
            raise ConfigurationError(
                f"silent_after_s={place.silent_after_s!r}", pipeline=pipeline, remedy="give seconds, more than 0."
            )
        self._health = Health(pipeline, place.silent_after_s, clock)
        try:
            self._server = _server_at(place.host, place.port, self._health)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"health cannot be served at {place.host}:{place.port}: {error}",
                pipeline=pipeline,
                remedy="give health_port= a port that is free, health_host= an address of this machine.",
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="tpc-health", daemon=True)
        self._thread.start()
        logger.info("health of %s: http://%s:%d%s and %s", pipeline, place.host, self.port, LIVENESS, READINESS)

    @property
    def port(self) -> int:
        """Where it is served; of `health_port=0` the one that was free."""
        return int(self._server.server_address[1])

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """Look at one step of the machine."""
        self._health.tell(transition, notice)

    def close(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_CLOSE_TIMEOUT_S)


def _server_at(host: str, port: int, health: Health) -> _Server:
    family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return _Server(family, (address[0], port, *address[2:]), health)


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 2 * REQUESTS_MAX

    def __init__(self, family: socket.AddressFamily, address: Any, health: Health) -> None:
        self.address_family = family
        self.health = health
        self._free = threading.BoundedSemaphore(REQUESTS_MAX)
        super().__init__(address, _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own, if one is free."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The thread of one request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, mostly; the next one is served."""
        logger.debug("a request for the pipeline's health has failed", exc_info=True)


class _Request(BaseHTTPRequestHandler):
    server: _Server
    server_version = "tpc"
    sys_version = ""

    def setup(self) -> None:
        """Read the request's head within its time, however slowly the client sends it."""
        super().setup()
        self.rfile = io.BytesIO(_head(self.connection))
        self.connection.settimeout(REQUEST_TIMEOUT_S)

    def do_GET(self) -> None:
        """Answer."""
        status, told = self.server.health.answer(self.path.partition("?")[0])
        body = (json.dumps(told) + "\n").encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Probes come every few seconds: not in the log, unless it is asked for everything."""
        logger.debug(format, *args)


def _head(connection: socket.socket) -> bytes:
    deadline, head = Deadline(REQUEST_TIMEOUT_S), b""
    while b"\r\n\r\n" not in head and len(head) < HEAD_BYTES_MAX:
        if deadline.passed:
            raise TimeoutError("the head of a request did not come in time")
        connection.settimeout(max(deadline.remaining_s, 0.001))
        received = connection.recv(HEAD_BYTES_MAX)
        if not received:
            break
        head += received
    return head
