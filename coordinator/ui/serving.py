"""Where the pages are served: the address, the token, the threads that watch, and uvicorn until it is told to end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn

from tpc.coordinator.clock import SystemClock
from tpc.coordinator.log.contract import Log
from tpc.coordinator.targets import names_job, place_named
from tpc.coordinator.ui.app import make_app
from tpc.coordinator.ui.events import Changes, Noticed
from tpc.coordinator.ui.guard import names_this_machine
from tpc.coordinator.ui.watching import Place, Watch, Watched
from tpc.errors import ConfigurationError

TOKEN_VARIABLE = "TPC_UI_TOKEN"
TOKEN_LENGTH_MIN = 16
EVERY_S = 2.0
"""How often each log is looked at."""
CONNECTIONS_MAX = 256
CLOSE_TIMEOUT_S = 2


class _Server(uvicorn.Server):
    """Ends the streams of events when it is told to end: it would else wait for them."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal has come."""
        super().handle_exit(sig, frame)
        self._changes.end()


def serve(targets: Sequence[str], host: str, port: int, token_file: Path | None, *, say: Callable[[str], None]) -> None:
    """Serve until the process is told to end; `say` is told where.

    Raises `ConfigurationError` for what cannot be served as it is asked.
    """
    token = read_token(token_file)
    if token is None and not names_this_machine(host):
        raise ConfigurationError(
            f"other machines can reach {host}, and there is no token",
            remedy=f"give --token-file, or {TOKEN_VARIABLE} in the environment; or leave --host out.",
        )
    clock = SystemClock()
    watched = [Watched(number, _place(target), clock) for number, target in enumerate(targets)]
    with closing(_listener(host, port)) as listener:
        changes = Changes()
        app = make_app(watched, clock, changes, token)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=CLOSE_TIMEOUT_S,
        )
        watch = Watch(watched, EVERY_S, Noticed(changes, clock))
        watch.start()
        say(f"http://{_shown(listener)}/ shows {len(watched)} {'log' if len(watched) == 1 else 'logs'}")
        with suppress(KeyboardInterrupt):
            _Server(config, changes).run(sockets=[listener])
        watch.stop()


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


def _place(target: str) -> Place:
    """Where a log is. A checkpoint is looked at again until it holds one; a job is loaded once."""
    if not names_job(target):
        return partial(place_named, target)
    found: tuple[Log, Path | None] = place_named(target)
    return lambda: found


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise ConfigurationError(
            f"the page cannot be served at {host}:{port}: {error.strerror}",
            remedy="give --port a port that is free (0: any), --host an address of this machine.",
        ) from error


def _shown(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if listener.family == socket.AF_INET6 else f"{host}:{port}"
