"""The log in a table of PostgreSQL, when the server is late, locked, killed or cut off; `test_sqlite` has the other."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tpc
from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.proxy import Action, Request, Rule, proxied_postgres
from tpc.chaos.servers.postgres import PostgresServer
from tpc.coordinator.kernel.log.sql import SqlLog
from tpc.errors import ConfigurationError, PutUnknownError, TransientError

PASSWORD = "not-to-be-seen"


def log_at(dsn: str, timeout_s: float = 10.0) -> SqlLog:
    return SqlLog(dsn, pipeline="orders", timeout_s=timeout_s)


# PostgreSQL: a COMMIT that is not answered ---------------------------------------------------------------------------


@pytest.fixture
def log(postgres: PostgresDatabase) -> SqlLog:
    """A log that holds slot 1."""
    log = log_at(postgres.dsn)
    log.put(1, b"one", None)
    return log


@pytest.mark.parametrize("action", [Action.LOSE_REPLY_AND_RESET, Action.LOSE_REQUEST])
def test_a_connection_that_breaks_at_commit_leaves_the_put_unknown_and_repeatable(
    log: SqlLog, postgres: PostgresDatabase, action: Action
) -> None:
    with proxied_postgres(postgres.dsn) as (proxy, through):
        through_proxy = log_at(through)
        rule = proxy.add(Rule(action, "COMMIT", times=None))
        with pytest.raises(PutUnknownError, match=r"slot 2 .* may be durable"):
            through_proxy.put(2, b"two", b"one")
        assert rule.fired
        assert log.slots() == ([1, 2] if action is Action.LOSE_REPLY_AND_RESET else [1])
        proxy.remove(rule)
        assert through_proxy.put(2, b"two", b"one")
        assert not through_proxy.put(2, b"other", b"one")
    assert log.read(2) == b"two"


def test_a_server_that_does_not_answer_a_commit_is_given_up_in_time(log: SqlLog, postgres: PostgresDatabase) -> None:
    with proxied_postgres(postgres.dsn) as (proxy, through):
        proxy.add(Rule(Action.LOSE_REPLY_SILENTLY, "COMMIT", times=None))
        started = time.monotonic()
        with pytest.raises(PutUnknownError, match=r"did not answer within 2\.5 s"):
            log_at(through, timeout_s=0.5).put(2, b"two", b"one")
        assert time.monotonic() - started < 10


@pytest.mark.slow
def test_a_server_killed_at_commit_leaves_the_put_unknown_and_repeatable(tmp_path: Path) -> None:
    server, killed = PostgresServer(tmp_path), threading.Event()

    def kill(_request: Request) -> None:
        server.kill()
        killed.set()

    server.start()
    try:
        log_at(server.dsn).put(1, b"one", None)
        with proxied_postgres(server.dsn) as (proxy, through):
            log = log_at(through)
            log.put(2, b"two", b"one")
            rule = proxy.add(Rule(Action.LOSE_REPLY_AND_RESET, "COMMIT", before=kill))
            with pytest.raises(PutUnknownError):
                log.put(3, b"three", b"two")
            assert killed.wait(30)
            with pytest.raises(TransientError):
                log.put(3, b"three", b"two")
            server.start()
            proxy.remove(rule)
            assert (log.put(3, b"three", b"two"), log.slots()) == (True, [1, 2, 3])
    finally:
        server.kill()


def test_the_deadline_begins_again_with_each_call(
    log: SqlLog, postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpc.coordinator.kernel.log.sql_postgres.GRACE_S", 0)
    postgres.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.7); RETURN NEW; END $$"
    )
    postgres.execute("CREATE TRIGGER wait AFTER INSERT ON tpc_log FOR EACH ROW EXECUTE FUNCTION wait()")
    impatient = log_at(postgres.dsn, timeout_s=2.0)
    assert [impatient.put(slot, b"late", None) for slot in (2, 3, 4, 5)] == [True] * 4


# PostgreSQL: before the COMMIT ---------------------------------------------------------------------------------------


@contextmanager
def holding(postgres: PostgresDatabase, statement: str) -> Iterator[psycopg.Connection[Any]]:
    """Another session's transaction, open after a statement."""
    with closing(psycopg.connect(postgres.dsn, connect_timeout=10)) as session:
        session.execute(statement.encode())
        yield session


@pytest.mark.parametrize(
    "statement",
    [
        "LOCK TABLE tpc_log IN ACCESS EXCLUSIVE MODE",
        "INSERT INTO tpc_log (pipeline, slot, data) VALUES ('orders', 2, 'another')",
    ],
    ids=["table", "slot"],
)
def test_a_lock_that_another_session_holds_is_waited_for_in_bounds(
    log: SqlLog, postgres: PostgresDatabase, statement: str
) -> None:
    log.timeout_s = 0.5
    with holding(postgres, statement), pytest.raises(TransientError, match=r"cannot take slot 2: .* timeout"):
        log.put(2, b"two", b"one")
    assert log.slots() == [1]
    assert log.put(2, b"two", b"one")


def test_a_put_that_waited_for_another_coordinator_s_put_answers_no(log: SqlLog, postgres: PostgresDatabase) -> None:
    other = "INSERT INTO tpc_log (pipeline, slot, data) VALUES ('orders', 2, 'another')"
    with holding(postgres, other) as session:
        commit_when_waited_for(session, postgres)
        assert not log.put(2, b"two", b"one")
    assert log.read(2) == b"another"


def test_a_table_that_another_coordinator_makes_at_the_same_moment_is_used(postgres: PostgresDatabase) -> None:
    columns = "pipeline text, slot int8, data bytea, put_at timestamptz, PRIMARY KEY (pipeline, slot)"
    with holding(postgres, f"CREATE TABLE tpc_log ({columns})") as session:
        commit_when_waited_for(session, postgres)
        assert log_at(postgres.dsn).put(1, b"one", None)
    assert log_at(postgres.dsn).slots() == [1]


def commit_when_waited_for(session: psycopg.Connection[Any], postgres: PostgresDatabase) -> None:
    def watch() -> None:
        while not postgres.execute("SELECT 1 FROM pg_locks WHERE NOT granted"):
            time.sleep(0.02)
        session.commit()

    threading.Thread(target=watch, daemon=True).start()


def test_a_put_is_synchronous_and_has_deadlines_whatever_the_database_s_defaults(postgres: PostgresDatabase) -> None:
    for setting in ("synchronous_commit = off", "statement_timeout = 0", "lock_timeout = 0"):
        postgres.execute(f"ALTER DATABASE {postgres.name} SET {setting}")
    log = log_at(postgres.dsn, timeout_s=7)
    log.put(1, b"one", None)
    postgres.execute("CREATE TABLE seen (name text, value text)")
    postgres.execute(
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen SELECT name, setting "
        "FROM pg_settings WHERE name IN ('synchronous_commit', 'statement_timeout', 'lock_timeout'); RETURN NEW; END $$"
    )
    postgres.execute("CREATE TRIGGER see AFTER INSERT ON tpc_log FOR EACH ROW EXECUTE FUNCTION see()")
    log.put(2, b"two", b"one")
    seen = dict(postgres.execute("SELECT name, value FROM seen"))
    assert seen == {"synchronous_commit": "on", "statement_timeout": "7000", "lock_timeout": "7000"}


def test_a_commit_is_not_cut_short_by_the_statement_s_deadline(log: SqlLog, postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE seen (value text)")
    postgres.execute(
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO seen VALUES (current_setting('statement_timeout')); RETURN NEW; END $$"
    )
    postgres.execute(
        "CREATE CONSTRAINT TRIGGER see AFTER INSERT ON tpc_log DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION see()"
    )
    log.put(2, b"two", b"one")
    assert postgres.execute("SELECT value FROM seen") == [("0",)]


def test_a_yes_to_the_same_bytes_is_a_commit_of_its_own(log: SqlLog, postgres: PostgresDatabase) -> None:
    before = postgres.execute("SELECT xmin::text FROM tpc_log")
    assert log.put(1, b"one", None)
    assert postgres.execute("SELECT xmin::text FROM tpc_log") != before


def test_a_refusal_by_the_database_puts_nothing(log: SqlLog, postgres: PostgresDatabase) -> None:
    postgres.execute("ALTER TABLE tpc_log ADD CHECK (slot < 2)")
    with pytest.raises(TransientError, match=r"cannot take slot 2: .*SQLSTATE 23514"):
        log.put(2, b"two", b"one")
    assert log.slots() == [1]


def test_a_connection_that_was_lost_while_idle_is_replaced_at_the_next_call(
    log: SqlLog, postgres: PostgresDatabase
) -> None:
    calls: list[Callable[[], bool]] = [lambda: log.read(1) == b"one", lambda: log.put(2, b"two", b"one")]
    for call in calls:
        gone = (
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE application_name = 'tpc' AND datname = %s"
        )
        assert postgres.execute(gone, (postgres.name,)) == [(True,)]
        assert call()


def test_a_server_that_cannot_be_reached_gives_an_error_without_the_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    log = log_at(f"postgresql://someone:{PASSWORD}@127.0.0.1:{port}/db?sslpassword={PASSWORD}")
    for call in (lambda: log.put(1, b"one", None), log.slots, lambda: log.read(1), lambda: log.delete([1])):
        with pytest.raises(TransientError) as caught:
            call()
        assert f"127.0.0.1:{port}/db" in str(caught.value)
        assert PASSWORD not in str(caught.value)
        assert "someone" not in str(caught.value)


def test_a_user_who_is_refused_is_not_named(postgres: PostgresDatabase) -> None:
    log = log_at(postgres.dsn.replace("//tpc@", f"//nobody-known:{PASSWORD}@"))
    with pytest.raises(TransientError) as caught:
        log.put(1, b"one", None)
    assert "nobody-known" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


# Where it is ---------------------------------------------------------------------------------------------------------


def test_a_url_of_the_environment_is_resolved_where_it_is_used(
    postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SqlLog(tpc.env("LOG_URL"), pipeline="orders")
    assert repr(log) == "SqlLog(env('LOG_URL'), table tpc_log, pipeline orders)"
    with pytest.raises(ConfigurationError, match="LOG_URL is not set"):
        log.put(1, b"one", None)
    monkeypatch.setenv("LOG_URL", postgres.dsn.replace("@", f":{PASSWORD}@"))
    assert log.put(1, b"one", None)
    assert PASSWORD.encode() not in pickle.dumps(log)
    assert PASSWORD not in repr(log)
    assert f"/{postgres.name}, table tpc_log, pipeline orders" in repr(log)


def test_a_table_may_lie_in_a_schema(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE SCHEMA audit")
    log = SqlLog(postgres.dsn, pipeline="orders", table="audit.decisions")
    assert log.put(1, b"one", None)
    assert postgres.execute("SELECT pipeline, slot, data FROM audit.decisions") == [("orders", 1, b"one")]
