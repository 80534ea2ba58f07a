"""Where the pages are served: the address, the token, the threads that watch, and uvicorn until it is told to end.

Serves in the thread that asks for it: the main one of `tpc ui`, one of its own in a pipeline's driver.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn

from tpc.coordinator.kernel.clock import SystemClock
from tpc.coordinator.operations.page.app import make_app
from tpc.coordinator.operations.page.asking import AskedSinks, PipelineSinks
from tpc.coordinator.operations.page.events import Changes, Noticed
from tpc.coordinator.operations.page.guard import names_this_machine
from tpc.coordinator.operations.page.watching import LogWatch, Place, Watched
from tpc.errors import ConfigurationError

TOKEN_VARIABLE = "TPC_UI_TOKEN"
TOKEN_LENGTH_MIN = 16
EVERY_S = 2.0
"""How often each log is looked at."""
CONNECTIONS_MAX = 256
CLOSE_TIMEOUT_S = 2


Shown = tuple[Place, PipelineSinks | None]
"""A log, and the sinks that may be asked, where they are known."""


class _Server(uvicorn.Server):
    """Ends the streams of events when it is told to end: it would else wait for them."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come."""
        super().handle_exit(sig, frame)
        self._changes.end()


class Site:
    """The pages over the logs at `places`: a port that is open from here on, and pages there while `run` lasts.

    Raises `ConfigurationError` for a port that cannot be had, and for an address of others without a token.
    """

    def __init__(self, places: Sequence[Shown], host: str, port: int, token: str | None) -> None:
        if token is None and not names_this_machine(host):
            raise ConfigurationError(
                f"other machines can reach {host}, and there is no token",
                remedy=f"give {TOKEN_VARIABLE} in the environment, or `tpc ui` a --token-file; or leave the host out.",
            )
        clock, self._changes = SystemClock(), Changes()
        watched = [
            Watched(number, place, clock, None if of is None else AskedSinks(of.pipeline, of.sinks, clock))
            for number, (place, of) in enumerate(places)
        ]
        self._watch = LogWatch(watched, EVERY_S, Noticed(self._changes, clock))
        config = uvicorn.Config(
            make_app(watched, clock, self._changes, token),
            log_config=None,  # a driver's log is its own
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=CLOSE_TIMEOUT_S,
        )
        self._server = _Server(config, self._changes)
        self._listener = _listener(host, port)
        self.url = f"http://{_shown(self._listener)}/"

    def run(self) -> None:
        """Serve until `close`, or in the main thread until a signal; then the port is closed."""
        self._watch.start()
        try:
            with suppress(KeyboardInterrupt):
                self._server.run(sockets=[self._listener])
        finally:
            self._watch.stop()
            self._listener.close()

    def close(self) -> None:
        """End `run`, which another thread is in."""
        self._server.should_exit = True
        self._changes.end()


def read_token(token_file: Path | None) -> str | None:
    """The token of the file, or else of the environment; None where neither is given."""
    if token_file is None:
        token, where = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if token is None:
            return None
    else:
        where = str(token_file)
        try:
            token = token_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"the token cannot be read from {where}: {getattr(error, 'strerror', 'it is no text')}",
                remedy="give a file that holds the token and nothing else.",
            ) from error
    token = token.strip()
    if len(token) < TOKEN_LENGTH_MIN:
        raise ConfigurationError(
            f"the token in {where} has fewer than {TOKEN_LENGTH_MIN} characters",
            remedy="make one that nobody guesses: `openssl rand -hex 32`.",
        )
    return token


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ConfigurationError(
            f"the page cannot be served at {host}:{port}: {error.strerror}",
            remedy="give a port that is free (0: any), and an address of this machine.",
        ) from error


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if listener.family == socket.AF_INET6 else f"{host}:{port}"
