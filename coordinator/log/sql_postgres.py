"""psycopg's connection for the log: one that stops waiting for a server which is frozen or cut off.

`statement_timeout` is the server's own watch, and it does not run during COMMIT; this one is ours.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Generator
from typing import Any

import psycopg

GRACE_S = 2.0
"""How much longer than the server's own deadlines we wait: its error says more than our silence."""
_NO_ANSWER = 0


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed, with an `OperationalError`, when its deadline passes while it waits."""

    give_up_at = float("inf")

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Drive one exchange with the server; every exchange of psycopg passes here."""
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == _NO_ANSWER and time.monotonic() > self.give_up_at:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server did not answer in time")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def connect(timeout_s: float, *arguments: Any, **parameters: Any) -> BoundedConnection:
    """A new connection, its deadline begun."""
    connection = BoundedConnection.connect(*arguments, **parameters)
    start_deadline(connection, timeout_s)
    return connection


def start_deadline(connection: BoundedConnection, timeout_s: float) -> None:
    """Give what follows on a connection so many seconds."""
    connection.give_up_at = time.monotonic() + timeout_s + GRACE_S


def is_alive(connection: BoundedConnection) -> bool:
    """An idle connection has nothing to read; if there is, the server closed it or said that it is going to."""
    if connection.closed:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(timeout=0)
