"""What a source asks its server besides rows: who it is, which transactions are finished, and who holds them up.

Each call has a deadline twice: the server's `statement_timeout`, and the client's for one that is silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from tpc.errors import ConfigurationError, DataError, TpcError, TransientError
from tpc.settings import Elsewhere
from tpc.sinks.postgres.connection import GRACE_S, connection_settings
from tpc.support.bounded_connection import BoundedConnection
from tpc.support.deadlines import patiently, until

Result = TypeVar("Result")

CONNECT_S = 10
_ASKED_WRONGLY = ("22", "28", "3D", "3F", "42")
"""Values, authorization, no such database or schema, access rule or missing object."""
_LETS_IN_LATER = re.compile(
    r"FATAL:\s+(sorry, too many clients|too many connections for|remaining connection slots|the database system is )"
)
"""Full, starting, recovering or shutting down. libpq gives no SQLSTATE for a login that fails."""
FLUSHED_SOON_S = 0.02
_PAGE_HEADER_BYTES = 40
"""Of a page of the write-ahead log, at most. The server counts it as inserted before there is anything to flush."""

_HORIZON = """
    SELECT (SELECT system_identifier::text FROM pg_control_system()), pg_snapshot_xmin(snapshot)::text::bigint,
           pg_snapshot_xmax(snapshot)::text::bigint, pg_is_in_recovery()
    FROM pg_current_snapshot() snapshot
"""
_INSERTED = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn, current_setting('wal_block_size')::bigint"
_FLUSHED = "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"
_REPLICATED = "SELECT current_setting('synchronous_standby_names') <> ''"
_HOLDERS = """
    SELECT format('prepared transaction %%L of database %%s', gid, database),
           extract(epoch FROM now() - prepared)::float8
    FROM pg_prepared_xacts WHERE transaction = %(xid)s::xid
    UNION ALL
    SELECT format('the open transaction of process %%s (%%s)', pid, usename),
           coalesce(extract(epoch FROM now() - xact_start), 0)::float8
    FROM pg_stat_activity WHERE backend_xid = %(xid)s::xid
"""
_EPOCH = 2**32


@dataclass(frozen=True)
class Horizon:
    """What a server has finished. Every transaction below `finished` is committed or rolled back, for good."""

    cluster: str
    finished: int
    next: int


@dataclass(frozen=True)
class Holder:
    """Whose transaction is the oldest that is not finished, and for how long it has been open."""

    who: str
    open_s: float


def opened(dsn: str | Elsewhere, timeout_s: float) -> BoundedConnection:
    """A connection that only reads. Raises `ConfigurationError`, or `TransientError` when no server answers in time."""
    # The deadline of the source counts, whatever the dsn says.
    settings = {
        **connection_settings(dsn, whose="of the source"),
        "connect_timeout": CONNECT_S,
        "client_encoding": "utf8",
    }

    def attempt() -> BoundedConnection:
        try:
            return BoundedConnection.connect("", autocommit=True, prepare_threshold=None, **settings)
        except psycopg.OperationalError as error:
            words = " ".join(str(error).split())
            if "FATAL" in words and not _LETS_IN_LATER.search(words):
                raise ConfigurationError(
                    f"PostgreSQL does not accept the source's login: {words}",
                    remedy="check user, password and database of the dsn, and pg_hba.conf.",
                ) from None
            raise TransientError(f"PostgreSQL, which the source reads, cannot be reached: {words}") from None

    connection = patiently(attempt, timeout_s)
    connection.answer_within_s = timeout_s + GRACE_S
    with asked():
        connection.execute(
            sql.SQL(
                "SET statement_timeout = {}; SET TIME ZONE 'UTC'; SET default_transaction_read_only = on;"
                "SET client_encoding = 'UTF8'; SET IntervalStyle = 'postgres'; SET DateStyle = 'ISO, MDY';"
                "SET extra_float_digits = 1; SET bytea_output = 'hex';"  # what is read as text has one text
                "SET row_security = off"  # rows that a policy would hide are an error
            ).format(sql.Literal(round(timeout_s * 1000)))
        )
    return connection


@contextmanager
def asked() -> Iterator[None]:
    """Errors of the server leave the block as the library's."""
    try:
        yield
    except psycopg.Error as error:
        words = " ".join((error.diag.message_primary or str(error)).split())
        if isinstance(error, psycopg.DataError) and error.sqlstate is None:  # not the server's word, but psycopg's
            raise DataError(
                f"a value of the source's table cannot be held: {words}",
                remedy="fix the value (infinite dates and those before the year 1 are none of Python's), or leave its "
                "column out with columns=[...].",
            ) from error
        raise _translated(words, error.sqlstate) from error


def _translated(words: str, state: str | None) -> TpcError:
    if (state or "").startswith(_ASKED_WRONGLY):
        return ConfigurationError(
            f"PostgreSQL refuses what the source asks: {words} (SQLSTATE {state})",
            remedy="grant the role SELECT on the table and USAGE on its schema, and BYPASSRLS where row-level security "
            "is on; the table may have been changed.",
        )
    return TransientError(f"PostgreSQL, which the source reads, did not answer: {words}")


def horizon(connection: BoundedConnection) -> Horizon:
    """What the server has finished, as of now. Raises `ConfigurationError` for a replica."""
    cluster, finished, following, is_replica = _row(connection, _HORIZON)
    if is_replica:
        raise ConfigurationError(
            "the source's PostgreSQL is a replica, which may not have received all that is finished",
            remedy="let the dsn name the primary (target_session_attrs=read-write).",
        )
    return Horizon(cluster, finished, following)


def make_lasting(connection: BoundedConnection, timeout_s: float) -> None:
    """Wait until what the server has finished by now is remembered after a crash, by its synchronous replica too.

    The record that a transaction was rolled back (or committed asynchronously) is flushed, and sent, a moment after it
    is finished. A server that crashes in between, or a replica that is promoted then, gives its id to another
    transaction, whose rows a position above it would pass over. Raises `TransientError` when that takes too long.
    """
    inserted, page_bytes = _row(connection, _INSERTED)

    def is_flushed() -> bool:
        (flushed,) = _row(connection, _FLUSHED)
        return bool(flushed >= inserted or (flushed % page_bytes == 0 and inserted - flushed <= _PAGE_HEADER_BYTES))

    (is_replicated,) = _row(connection, _REPLICATED)
    if is_replicated or not until(is_flushed, FLUSHED_SOON_S):
        _flush(connection)
    if not until(is_flushed, timeout_s):
        raise TransientError(
            f"PostgreSQL has not flushed its write-ahead log for {timeout_s:g} s, so it could forget what it has done",
            remedy="look at its disk, or raise the source's timeout_s.",
        )


def _flush(connection: BoundedConnection) -> None:
    """Let the server flush its log up to here, and its synchronous replica: by a commit that says nothing.

    A server without commits takes seconds by itself. If the wait for the replica is cancelled, the commit ends with a
    warning.
    """
    warnings: list[str] = []

    def note(told: psycopg.errors.Diagnostic) -> None:
        if told.severity_nonlocalized == "WARNING":
            warnings.append(told.message_primary or "")

    connection.add_notice_handler(note)
    try:
        with asked(), connection.transaction():
            connection.execute("SET TRANSACTION READ WRITE")
            connection.execute("SET LOCAL synchronous_commit = on; SET LOCAL client_min_messages = warning")
            connection.execute("SELECT pg_logical_emit_message(true, 'tpc', '')")
    finally:
        connection.remove_notice_handler(note)
    if warnings:
        raise TransientError(
            f"PostgreSQL's synchronous replica may not know what the server has finished: {'; '.join(warnings)}",
            remedy="see that the replica follows.",
        )


def holder(connection: BoundedConnection, xid: int) -> Holder | None:
    """Who has transaction `xid` open or prepared; None if it has ended, or if the role may not see it."""
    with asked():
        row = connection.execute(_HOLDERS, {"xid": str(xid % _EPOCH)}).fetchone()
    return None if row is None else Holder(*row)


def _row(connection: BoundedConnection, question: str) -> tuple[Any, ...]:
    with asked():
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row


def once(dsn: str | Elsewhere, timeout_s: float, question: Callable[[BoundedConnection], Result]) -> Result:
    """The answer to a question on a connection of its own."""
    with opened(dsn, timeout_s) as connection:
        return question(connection)
