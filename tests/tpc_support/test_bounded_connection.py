"""A connection that stops waiting for a server which is there and says nothing."""

from __future__ import annotations

import os
import signal

import psycopg
import pytest

from tests.support.postgres_database import PostgresDatabase
from tpc.support.bounded_connection import BoundedConnection, is_alive
from tpc.support.deadlines import Deadline

pytestmark = pytest.mark.stack


@pytest.fixture
def connection(postgres: PostgresDatabase) -> BoundedConnection:
    return BoundedConnection.connect(postgres.dsn, autocommit=True)


def freeze(connection: BoundedConnection) -> None:
    """Stop the server's process that answers this connection."""
    os.kill(connection.info.backend_pid, signal.SIGSTOP)


def thaw(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("bound", ["answer_within_s", "deadline"])
def test_a_frozen_server_is_given_up_in_time(connection: BoundedConnection, bound: str) -> None:
    pid = connection.info.backend_pid
    setattr(connection, bound, 0.3 if bound == "answer_within_s" else Deadline(0.3))
    freeze(connection)
    try:
        with pytest.raises(psycopg.OperationalError, match=r"did not answer within 0\.3 s"):
            connection.execute("SELECT 1")
    finally:
        thaw(pid)
    assert connection.closed


def test_a_connection_that_the_server_has_ended_is_not_alive(
    connection: BoundedConnection, postgres: PostgresDatabase
) -> None:
    assert is_alive(connection)
    with psycopg.connect(postgres.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
    assert not is_alive(connection)
