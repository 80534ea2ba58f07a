"""A relay in front of a PostgreSQL server that interferes when a client sends COMMIT, and not before."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from urllib.parse import urlsplit

TIMEOUT_S = 30.0


class AtCommit(Enum):
    """What becomes of a COMMIT and of its answer."""

    PASS = "both go through"
    LOSE_THE_ANSWER = "the server has committed when the connection breaks"
    LOSE_THE_REQUEST = "the connection breaks before the server hears of it"
    SAY_NOTHING = "the server has committed, and the client waits"


class CommitRelay:
    """Listens at `url`, a URL of the server's form.

    `before_commit` runs when a COMMIT has come that shall not pass.
    """

    def __init__(self, dsn: str, at_commit: AtCommit, *, before_commit: Callable[[], None] = lambda: None) -> None:
        self.at_commit = at_commit
        self.before_commit = before_commit
        self._target = urlsplit(dsn)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()

    @property
    def url(self) -> str:
        port = self._listener.getsockname()[1]
        user = self._target.netloc.rpartition("@")[0]
        return self._target._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()

    def __enter__(self) -> CommitRelay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        address = (self._target.hostname, self._target.port)
        # The server may be dead, and either side may leave: then the other one is left too.
        with contextlib.suppress(OSError), client, socket.create_connection(address, timeout=TIMEOUT_S) as server:
            silent = threading.Event()
            answers = threading.Thread(target=_copy, args=(server, client, silent), daemon=True)
            answers.start()
            while data := client.recv(65536):
                if b"COMMIT\0" not in data or self.at_commit is AtCommit.PASS:
                    server.sendall(data)
                    continue
                self.before_commit()
                if self.at_commit is AtCommit.LOSE_THE_REQUEST:
                    break
                silent.set()
                server.sendall(data)
                if self.at_commit is AtCommit.SAY_NOTHING:
                    self._ended.wait(TIMEOUT_S)
                break
            server.shutdown(socket.SHUT_WR)  # the server carries out what it was sent, then closes
            answers.join(TIMEOUT_S)


def _copy(source: socket.socket, target: socket.socket, silent: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            if not silent.is_set():
                target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
