"""A relay in front of a server that can be cut, so that one test has an outage and all others go on."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

CONNECT_TIMEOUT_S = 10.0
AT_ONCE = struct.pack("ii", 1, 0)
"""Close with a reset: the other side learns it with its next call."""


class Relay:
    """Listens at `port` of 127.0.0.1 and passes bytes on to `host` and `target_port`."""

    def __init__(self, host: str, target_port: int) -> None:
        self._target = (host, target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self._break_all()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Every connection breaks, and every new one at once, until the context is left."""
        self._is_cut = True
        self._break_all()
        try:
            yield
        finally:
            self._is_cut = False

    def _break_all(self) -> None:
        with self._lock:
            broken, self._open = self._open, set()
        for connection in broken:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # Either side may leave, or be cut off: then the other one is left too.
        with contextlib.suppress(OSError), client, socket.create_connection(self._target, CONNECT_TIMEOUT_S) as server:
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            if self._is_cut:
                self._break_all()
            answers = threading.Thread(target=_copy, args=(server, client), daemon=True)
            answers.start()
            _copy(client, server)
            answers.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes until one side is gone."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
