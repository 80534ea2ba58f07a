"""The PostgreSQL server: prepared transactions, durability, and no way from a client to the owner's account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import CANNOT_BE_HAD
from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.servers.postgres import PostgresServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    server = PostgresServer(tmp_path / "a directory with spaces", max_prepared_transactions=3)
    try:
        server.start()
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no PostgreSQL: {error}")
    yield server
    server.kill()


def query(server: PostgresServer, *statements: str) -> list[tuple[object, ...]]:
    """The rows of the last statement."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_rows_and_prepared_transactions_survive_a_kill(server: PostgresServer) -> None:
    query(server, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    query(server, "BEGIN", "INSERT INTO t VALUES (2)", "PREPARE TRANSACTION 'two'")
    server.kill()
    server.start()
    assert query(server, "SELECT gid FROM pg_prepared_xacts") == [("two",)]
    query(server, "COMMIT PREPARED 'two'")
    assert query(server, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]


def test_it_is_version_18_durable_and_allows_as_many_prepared_transactions_as_asked(server: PostgresServer) -> None:
    names = ("server_version_num", "fsync", "synchronous_commit", "max_prepared_transactions", "listen_addresses")
    (settings,) = query(server, f"SELECT {', '.join(f'current_setting({name!r})' for name in names)}")
    version, *others = settings
    assert 180000 <= int(str(version)) < 190000
    assert others == ["on", "on", "3", "127.0.0.1"]


def test_without_a_word_64_transactions_may_be_prepared(postgres: PostgresDatabase) -> None:
    assert postgres.execute("SHOW max_prepared_transactions") == [("64",)]


@pytest.mark.parametrize(
    "statement", ["COPY (SELECT 1) TO PROGRAM 'cat'", "COPY t FROM '/etc/passwd'", "ALTER SYSTEM SET fsync = off"]
)
def test_a_client_cannot_act_as_the_account_that_runs_the_server(server: PostgresServer, statement: str) -> None:
    query(server, "CREATE TABLE t (a text)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        query(server, statement)
    with pytest.raises(psycopg.OperationalError, match="pg_hba"):
        psycopg.connect(server.dsn.replace("tpc@", "postgres@"))


def test_databases_and_roles_can_be_made(server: PostgresServer) -> None:
    query(server, "CREATE DATABASE other", "CREATE ROLE reader LOGIN")
    with psycopg.connect(server.dsn_of("other").replace("tpc@", "reader@")) as connection:
        assert connection.execute("SELECT current_database(), current_user").fetchone() == ("other", "reader")


@pytest.mark.slow
def test_an_interrupted_set_up_is_done_again(tmp_path: Path) -> None:
    server = PostgresServer(tmp_path)
    (tmp_path / "draft" / "data").mkdir(parents=True)
    (tmp_path / "draft" / "data" / "PG_VERSION").write_text("18\n")
    try:
        server.start()
        assert query(server, "SELECT 1") == [(1,)]
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no PostgreSQL: {error}")
    finally:
        server.kill()
