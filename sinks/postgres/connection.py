"""Connections to PostgreSQL: opened, kept and handed out, each call on them with a deadline.

Knows DSNs and the pool; not what is said over a connection. Errors leave this module as psycopg raised them
(`errors` turns them into ours), except that of an unreadable DSN, whose text would show the DSN.
"""

from __future__ import annotations

import os
import re
import selectors
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_exponential

from tpc.errors import ConfigurationError
from tpc.settings import Env, resolve

CONNECT_ATTEMPTS = 3
GRACE_S = 5.0
"""How much longer than the server's own statement_timeout we wait: its error says more than our silence."""
IDLE_MAX = 4
"""Connections kept per DSN and process: several writers of one task are open at once."""

_DRIVER_IN_URL = re.compile(r"^postgres(?:ql)?\+\w+://")
_NO_ANSWER = 0


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that is closed, with an `OperationalError`, when the server is silent for too long.

    `statement_timeout` is the server's own watch; this one also ends the wait for a server that is frozen or cut off.
    """

    dsn = ""
    database_oid = 0
    answer_within_s = 30.0 + GRACE_S

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Drive one exchange with the server; every exchange of psycopg passes here."""
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        deadline = time.monotonic() + self.answer_within_s
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == _NO_ANSWER and time.monotonic() > deadline:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server did not answer within {self.answer_within_s:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


_idle: dict[tuple[int, str], list[BoundedConnection]] = {}
_idle_lock = threading.Lock()


def connection_settings(dsn: str | Env) -> dict[str, Any]:
    """The parts of a DSN or URL by libpq's names, the defaults left out. Raises `ConfigurationError`."""
    return _parts(_resolved(dsn))


def _resolved(dsn: str | Env) -> str:
    """libpq does not know the `postgresql+psycopg://` of SQLAlchemy."""
    return _DRIVER_IN_URL.sub("postgresql://", resolve(dsn))


def _parts(text: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(text)
    except psycopg.ProgrammingError:
        # libpq quotes the offending part, which may be the password.
        raise ConfigurationError(
            "the PostgreSQL dsn cannot be read (it is not shown here)",
            remedy="use 'host=... dbname=... user=...' or 'postgresql://user@host:port/database'.",
        ) from None


def connect(dsn: str | Env, timeout_s: float) -> BoundedConnection:
    """A new autocommit connection. Raises `psycopg.OperationalError` or `ConfigurationError`."""
    text = _resolved(dsn)
    settings = {
        "connect_timeout": max(2, round(timeout_s)),
        "application_name": "tpc",
        "client_encoding": "utf8",
        **_parts(text),
    }
    retrying = Retrying(
        stop=stop_after_attempt(CONNECT_ATTEMPTS) | stop_after_delay(timeout_s),
        wait=wait_exponential(multiplier=0.1, max=1.0),
        retry=retry_if_exception(_may_pass_soon),
        reraise=True,
    )
    # No server-side prepared statements: poolers in transaction mode lose them.
    connection = retrying(BoundedConnection.connect, "", autocommit=True, prepare_threshold=None, **settings)
    connection.dsn = text
    connection.answer_within_s = timeout_s + GRACE_S
    row = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    assert row is not None
    connection.database_oid = row[0]
    return connection


def _may_pass_soon(error: BaseException) -> bool:
    """Refused connections and a server that is starting; not a server that answered no."""
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, psycopg.errors.ConnectionTimeout):
        return False
    return "FATAL" not in str(error) or "starting up" in str(error)


def borrow(dsn: str | Env, timeout_s: float) -> BoundedConnection:
    """An idle connection of this process, else a new one. Give it back, or close it."""
    key = (os.getpid(), _resolved(dsn))
    while True:
        with _idle_lock:
            kept = _idle.get(key)
            connection = kept.pop() if kept else None
        if connection is None:
            return connect(dsn, timeout_s)
        if _alive(connection):
            connection.answer_within_s = timeout_s + GRACE_S
            return connection
        connection.close()


def give_back(connection: BoundedConnection) -> None:
    """Keep a connection for the next borrower; one that is broken or inside a transaction is closed."""
    if not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE:
        with _idle_lock:
            kept = _idle.setdefault((os.getpid(), connection.dsn), [])
            if len(kept) < IDLE_MAX:
                kept.append(connection)
                return
    connection.close()


@contextmanager
def borrowed(dsn: str | Env, timeout_s: float) -> Iterator[BoundedConnection]:
    """Borrow for the length of a `with` block."""
    connection = borrow(dsn, timeout_s)
    try:
        yield connection
    finally:
        give_back(connection)


def close_idle(dsn: str | Env) -> None:
    """Close what this process keeps for `dsn`."""
    with _idle_lock:
        kept = _idle.pop((os.getpid(), _resolved(dsn)), [])
    for connection in kept:
        connection.close()


def _alive(connection: BoundedConnection) -> bool:
    """An idle connection has nothing to read; if there is, the server closed it or said that it is going to."""
    if connection.closed:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(timeout=0)
