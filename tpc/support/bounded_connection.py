"""A connection to PostgreSQL that stops waiting for a server that is frozen or unreachable.

`statement_timeout` is a timeout of the server: it does not apply during COMMIT, nor while the server is unreachable.
This one is a timeout of the client. The module knows no DSN, no pool and no statement.
"""

from __future__ import annotations

import selectors
from collections.abc import Generator
from typing import Any

import psycopg

from tpc.support.deadlines import Deadline

_NO_ANSWER = 0
_FOR_EVER = float("inf")


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed with an `OperationalError` if the server is silent for too long.

    `answer_within_s` bounds each exchange with the server; `deadline` bounds all exchanges from now on together.
    """

    answer_within_s = _FOR_EVER
    deadline: Deadline | None = None

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Drive one exchange with the server; psycopg makes every exchange through this method."""
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        deadline = self.deadline or Deadline(self.answer_within_s)
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == _NO_ANSWER and deadline.passed:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server did not answer within {deadline.timeout_s:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def is_alive(connection: BoundedConnection) -> bool:
    """Whether an idle connection is usable: if there is something to read, the server has closed it or will do so."""
    if connection.closed:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(timeout=0)
