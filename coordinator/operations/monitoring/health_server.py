"""Serves a pipeline's health over HTTP: a port of this process, opened before anything starts, closed with the query.

Bounded in every way: so many requests at once, so many bytes and seconds for each. There is neither a password nor
encryption; what is answered stands in `health`.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import socketserver
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.notices import Notice
from tpc.coordinator.kernel.transition import Transition
from tpc.coordinator.operations.monitoring.health import LIVENESS, READINESS, Health
from tpc.errors import ConfigurationError
from tpc.lengths import LEAST_S, LENGTH_MAX_S, is_length
from tpc.support.deadlines import Deadline

logger = logging.getLogger(__name__)

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
