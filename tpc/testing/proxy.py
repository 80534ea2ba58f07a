"""A TCP proxy between a sink and its server, which loses replies: the server has done it, and the client is not told.

It knows no protocol. What a server sends at a time counts as one reply, which is right for small answers.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

CHUNK_BYTES = 1 << 16
CONNECT_S = 5.0
ACCEPT_S = 0.1
"""How soon the proxy notices that it is closed."""


class Loss(str, Enum):
    """What happens to a reply."""

    CUT = "cut"
    """It is thrown away, and the connection is closed on both sides."""
    HELD = "held"
    """It is thrown away, and the connection stays open: the client waits until its own timeout."""


class Losing:
    """A time in which one reply is lost: the one with this number, counted from 1 over all connections; 0: none."""

    def __init__(self, number: int, loss: Loss) -> None:
        self.number, self.loss = number, loss
        self.replies = 0
        """How many replies have come."""
        self._lock = threading.Lock()

    def next(self) -> Loss | None:
        """Count a reply; what happens to it, if it is the one to lose."""
        with self._lock:
            self.replies += 1
            return self.loss if self.replies == self.number else None

    def __str__(self) -> str:
        return f"reply {self.number} of {max(self.number, self.replies)} was {self.loss.value}"


class LossyProxy:
    """Listens on a port of its own and forwards to `host` and `port`; loses replies within `losing`."""

    def __init__(self, host: str, port: int) -> None:
        self.server = (host, port)
        self.now = Losing(0, Loss.CUT)
        """What happens to replies at present."""
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(ACCEPT_S)
        self.host, self.port = self._listener.getsockname()[:2]
        self._accepting = threading.Thread(target=self._accept, name="tpc-lossy-proxy", daemon=True)
        self._accepting.start()

    @contextmanager
    def losing(self, number: int, loss: Loss = Loss.CUT) -> Iterator[Losing]:
        """Lose the reply with this number while the context is open."""
        before, self.now = self.now, Losing(number, loss)
        try:
            yield self.now
        finally:
            self.now = before

    def close(self) -> None:
        """Close every connection, and the port."""
        self._closed.set()
        self._listener.close()
        with self._lock:
            for connection in self._connections:
                _shut(connection)
        self._accepting.join(CONNECT_S)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # closed meanwhile
                return
            try:
                server = socket.create_connection(self.server, CONNECT_S)
            except OSError:
                _shut(client)
                continue
            for each in (client, server):
                each.settimeout(None)
                with suppress(OSError):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connections += [client, server]
            for source, target, is_reply in ((client, server, False), (server, client, True)):
                thread = threading.Thread(target=self._pump, args=(source, target, is_reply), daemon=True)
                thread.start()

    def _pump(self, source: socket.socket, target: socket.socket, is_reply: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                loss = self.now.next() if is_reply else None
                if loss is Loss.CUT:
                    break
                if loss is None:
                    target.sendall(data)
        _shut(source)
        _shut(target)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        connection.close()


@contextmanager
def lossy_proxy(host: str, port: int) -> Iterator[LossyProxy]:
    """A proxy for the time of the context."""
    proxy = LossyProxy(host, port)
    try:
        yield proxy
    finally:
        proxy.close()
