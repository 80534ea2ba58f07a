"""The log in a PostgreSQL table holds the predecessor's row from the put's statement until its COMMIT."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing

import psycopg
import pytest
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection

from tests.support.postgres_database import PostgresDatabase
from tpc.coordinator.kernel.log import sql_connection
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.errors import LogGoneError

REMOVALS = {
    "delete": b"DELETE FROM tpc_log WHERE slot = 1",
    "update": b"UPDATE tpc_log SET data = 'another' WHERE slot = 1",
}
removals = pytest.mark.parametrize("removal", list(REMOVALS.values()), ids=list(REMOVALS))


@pytest.fixture
def log(postgres: PostgresDatabase) -> SqlLog:
    """A log that holds slot 1."""
    log = SqlLog(postgres.dsn, pipeline="orders")
    log.put(1, b"one", None)
    return log


def just_before_commit(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    before_commit = sql_connection.before_commit

    def happens_first(connection: Connection) -> None:
        happens()
        before_commit(connection)

    monkeypatch.setattr(sql_connection, "before_commit", happens_first)


@removals
@pytest.mark.parametrize("again", [False, True], ids=["put", "put-again"])
def test_the_record_before_cannot_go_until_the_put_is_committed(
    log: SqlLog, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch, removal: bytes, again: bool
) -> None:
    """Neither at a first put, nor at one that finds its own bytes there (its first answer was lost)."""
    if again:
        log.put(2, b"two", b"one")
    waited: list[bool] = []

    def cannot_go() -> None:
        with postgres.connect() as another:
            another.execute("SET lock_timeout = '200ms'")
            with pytest.raises(LockNotAvailable):
                another.execute(removal)
            waited.append(True)

    just_before_commit(monkeypatch, cannot_go)
    assert log.put(2, b"two", b"one")
    assert waited == [True]
    with postgres.connect() as another:
        assert another.execute(removal).rowcount == 1
    assert log.read(2) == b"two"


@removals
def test_a_put_waits_for_who_is_taking_the_record_before_away_and_is_refused(
    log: SqlLog, postgres: PostgresDatabase, removal: bytes
) -> None:
    with closing(psycopg.connect(postgres.dsn, connect_timeout=10)) as another:
        another.execute(removal)

        def commit_when_waited_for() -> None:
            while not postgres.execute("SELECT 1 FROM pg_locks WHERE NOT granted"):
                time.sleep(0.02)
            another.commit()

        watch = threading.Thread(target=commit_when_waited_for, daemon=True)
        watch.start()
        with pytest.raises(LogGoneError):
            log.put(2, b"two", b"one")
        watch.join(10)
    assert 2 not in log.slots()
