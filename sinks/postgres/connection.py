"""Connections to PostgreSQL: opened, kept and handed out, each call on them with a deadline.

Knows DSNs and the pool; not what is said over a connection. Errors leave this module as psycopg raised them
(`errors` turns them into ours), except that of an unreadable DSN, whose text would show the DSN.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_exponential

from tpc.errors import ConfigurationError
from tpc.settings import Elsewhere, resolve
from tpc.support.bounded_connection import BoundedConnection, is_alive
from tpc.support.fork_safe_lock import ForkSafeLock
from tpc.support.tls import complaint

CONNECT_ATTEMPTS = 3
GRACE_S = 5.0
"""How much longer than the server's own statement_timeout we wait: its error says more than our silence."""
IDLE_MAX = 4
"""Connections kept per DSN and process: several writers of one task are open at once."""

DIAGNOSIS_S = 2.0
"""How long a handshake may take that finds out why there was none."""
_SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")
"""The protocol's SSLRequest message."""
_DRIVER_IN_URL = re.compile(r"^postgres(?:ql)?\+\w+://")


class PooledConnection(BoundedConnection):
    """A connection that knows which pool it goes back to, and the database it leads to."""

    dsn = ""
    database_oid = 0


_idle: dict[tuple[int, str], list[PooledConnection]] = {}
_idle_lock = ForkSafeLock(fork_waits=False)


def connection_settings(dsn: str | Elsewhere, *, whose: str = "") -> dict[str, Any]:
    """The parts of a DSN or URL by libpq's names, the defaults left out. Raises `ConfigurationError`.

    `whose` follows "the PostgreSQL dsn" in that error, as "of the source".
    """
    return _parts(_resolved(dsn), whose)


def _resolved(dsn: str | Elsewhere) -> str:
    """libpq does not know the `postgresql+psycopg://` of SQLAlchemy."""
    return _DRIVER_IN_URL.sub("postgresql://", resolve(dsn))


def _parts(text: str, whose: str = "") -> dict[str, Any]:
    try:
        parts = conninfo_to_dict(text)
    except psycopg.ProgrammingError:
        # libpq quotes the offending part, which may be the password.
        raise _unreadable(whose) from None
    host = str(parts.get("host", ""))
    if "://" in text and "@" in host and not host.startswith(("/", "@")):
        # A part of a password: libpq would say that this host is not known. (A socket begins with a slash or an @.)
        raise _unreadable(whose)
    return parts


def _unreadable(whose: str) -> ConfigurationError:
    return ConfigurationError(
        f"the PostgreSQL dsn{whose and ' '}{whose} cannot be read (it is not shown here)",
        remedy="use 'host=... dbname=... user=...' or 'postgresql://user@host:port/database', with @ / : # and ? of a "
        "password percent-encoded.",
    )


def connect(dsn: str | Elsewhere, timeout_s: float) -> PooledConnection:
    """A new autocommit connection. Raises `psycopg.OperationalError` or `ConfigurationError`."""
    text = _resolved(dsn)
    settings = {
        "connect_timeout": max(2, round(timeout_s)),
        "application_name": "tpc",
        **_parts(text),
        "client_encoding": "utf8",  # rows and names are sent in it, whatever the DSN says
    }
    retrying = Retrying(
        stop=stop_after_attempt(CONNECT_ATTEMPTS) | stop_after_delay(timeout_s),
        wait=wait_exponential(multiplier=0.1, max=1.0),
        retry=retry_if_exception(_may_pass_soon),
        reraise=True,
    )
    # No server-side prepared statements: poolers in transaction mode lose them.
    connection = retrying(PooledConnection.connect, "", autocommit=True, prepare_threshold=None, **settings)
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


def certificate_complaint(dsn: str | Elsewhere) -> str | None:
    """What is wrong with the certificate of the server at `dsn`; None if nothing is, or if it cannot be asked."""
    settings = connection_settings(dsn)
    authorities = settings.get("sslrootcert")
    hosts, ports = (str(settings.get(name) or default).split(",") for name, default in (("host", ""), ("port", "5432")))
    for number, host in enumerate(hosts):
        port = ports[min(number, len(ports) - 1)]
        trusted = None if authorities == "system" else authorities
        told = complaint(host, int(port), trusted, DIAGNOSIS_S, first_word=_SSL_REQUEST)
        if told:
            return f"{host}: {told}"
    return None


def borrow(dsn: str | Elsewhere, timeout_s: float) -> PooledConnection:
    """An idle connection of this process, else a new one. Give it back, or close it."""
    key = (os.getpid(), _resolved(dsn))
    while True:
        with _idle_lock:
            kept = _idle.get(key)
            connection = kept.pop() if kept else None
        if connection is None:
            return connect(dsn, timeout_s)
        if is_alive(connection):
            connection.answer_within_s = timeout_s + GRACE_S
            return connection
        connection.close()


def give_back(connection: PooledConnection) -> None:
    """Keep a connection for the next borrower; one that is broken or inside a transaction is closed."""
    if not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE:
        with _idle_lock:
            kept = _idle.setdefault((os.getpid(), connection.dsn), [])
            if len(kept) < IDLE_MAX:
                kept.append(connection)
                return
    connection.close()


@contextmanager
def borrowed(dsn: str | Elsewhere, timeout_s: float) -> Iterator[PooledConnection]:
    """Borrow for the length of a `with` block."""
    connection = borrow(dsn, timeout_s)
    try:
        yield connection
    finally:
        give_back(connection)


def close_idle(dsn: str | Elsewhere) -> None:
    """Close what this process keeps for `dsn`."""
    with _idle_lock:
        kept = _idle.pop((os.getpid(), _resolved(dsn)), [])
    for connection in kept:
        connection.close()
