"""What a position rests on outlives the server, and what keeps the source from its server is sorted: wait, or mend."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.sinks.postgres.source.tables import add, make_table, reader
from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.servers.postgres import PostgresServer
from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.postgres.source.position import Position
from tpc.sinks.postgres.source.server import horizon, once, opened
from tpc.support.bounded_connection import BoundedConnection
from tpc.support.deadlines import until

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class WithoutItsReplica(PostgresServer):
    """A server whose synchronous replica does not answer."""

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "synchronous_standby_names": "replica"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithoutItsReplica]:
    one = WithoutItsReplica(tmp_path_factory.mktemp("postgres") / "server")
    try:
        yield one
    finally:
        one.kill()


@pytest.fixture
def unreplicated(server: WithoutItsReplica) -> PostgresDatabase:
    """Its clients wait for no replica of their own accord: neither these of the test nor the source."""
    server.start()
    database = PostgresDatabase(f"{server.dsn}?options=-csynchronous_commit%3Dlocal", "postgres")
    database.execute("DROP TABLE IF EXISTS orders")
    return make_table(database)


@pytest.mark.parametrize(
    "dsn", ["postgresql://user:one@hidden@nowhere/d", "postgresql://u:hidden@[h/d", "host=h passwort=hidden"]
)
def test_no_part_of_a_password_is_shown_when_the_dsn_cannot_be_read(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="dsn of the source cannot be read") as raised:
        opened(dsn, 1.0)
    assert "hidden" not in str(raised.value)


@pytest.mark.stack
def test_the_dsn_may_be_written_as_that_of_a_sink(postgres: PostgresDatabase) -> None:
    parts = conninfo_to_dict(postgres.dsn)
    place = f"{parts.get('user', '')}:{parts.get('password', '')}@{parts['host']}:{parts['port']}/{parts['dbname']}"
    assert once(f"postgresql+psycopg://{place}", 20.0, horizon).finished > 0


@pytest.mark.stack
def test_no_position_is_taken_that_the_synchronous_replica_may_not_know_of(unreplicated: PostgresDatabase) -> None:
    """Promoted, it would give the ids that it has not heard of to other transactions, below the position."""
    add(unreplicated, 1)
    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(reader(unreplicated).latestOffset)
        assert until(lambda: planned.done() or unreplicated.execute(WAITING) != [], 20), "it waits for the replica"
        for (pid,) in unreplicated.execute(WAITING):
            unreplicated.execute("SELECT pg_cancel_backend(%s)", [pid])  # the server then answers with a mere warning
        with pytest.raises(TransientError, match="canceling wait for synchronous replication"):
            planned.result(20)


@pytest.mark.stack
def test_a_stream_that_stays_where_it_is_asks_no_replica(unreplicated: PostgresDatabase) -> None:
    now = once(unreplicated.dsn, 20.0, horizon)
    at = Position(now.cluster, "postgres.public.orders", 0, now.finished, now.next).to_offset()
    one = reader(unreplicated, timeout="1")
    one.partitions(at, at)
    assert one.latestOffset() == at


@pytest.mark.stack
def test_a_server_that_shuts_down_is_waited_for(server: WithoutItsReplica) -> None:
    def is_let_in_and_leaves() -> bool:
        opened(server.dsn, 0.2).close()
        return True

    server.start()
    assert server.pid is not None
    with psycopg.connect(server.dsn, autocommit=True, connect_timeout=10):
        os.kill(server.pid, signal.SIGTERM)  # it lets those who are there go on, and nobody else in
        with pytest.raises(TransientError, match="is shutting down"):
            until(lambda: not is_let_in_and_leaves(), 20)
    server.kill()


def test_a_connection_that_there_is_no_room_for_is_waited_for(postgres: PostgresDatabase) -> None:
    with postgres.connect() as only:
        only.execute(f"ALTER DATABASE {postgres.name} CONNECTION LIMIT 1".encode())
        try:
            with pytest.raises(TransientError, match="too many connections"):
                opened(postgres.dsn, 0.2)
        finally:
            only.execute(f"ALTER DATABASE {postgres.name} CONNECTION LIMIT -1".encode())


@pytest.mark.parametrize(
    "words",
    [
        "sorry, too many clients already",
        "remaining connection slots are reserved for roles with the SUPERUSER attribute",
        "the database system is in recovery mode",
        "the database system is not yet accepting connections",
    ],
)
def test_a_server_that_will_let_the_source_in_later_is_waited_for(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise psycopg.OperationalError(f'connection to server at "db", port 5432 failed: FATAL:  {words}')

    monkeypatch.setattr(BoundedConnection, "connect", refuse)
    with pytest.raises(TransientError, match=words):
        opened("host=db", 0.1)


@pytest.mark.parametrize("wrong", [{"user": "nobody_of_this_name"}, {"dbname": "too many clients already"}])
def test_a_login_that_will_never_do_is_refused_at_once(wrong: dict[str, str], postgres: PostgresDatabase) -> None:
    with pytest.raises(ConfigurationError, match="does not accept the source's login"):
        opened(make_conninfo(postgres.dsn, **wrong), 20.0)
