"""Owner entries in PostgreSQL, and the branches of other pipelines that stand beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from psycopg.conninfo import make_conninfo

from tests.sinks.owner_terms import require_renewal, term
from tests.sinks.postgres.branches import JOB, branch, checked, context, prepared, rows
from tests.support.postgres_database import PostgresDatabase
from tpc.chaos.servers.postgres import PostgresServer
from tpc.errors import ConfigurationError, NotInstalledError, TransientError
from tpc.handles import PipelineId
from tpc.sink import Committer, Owner
from tpc.sinks.postgres.sink import PostgresSink

TABLE = "CREATE TABLE t (id int, n int)"
ONE = rows(id=[1, 2], n=[1, 1])
OTHER = PipelineId("other", 3)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server of these tests' own, to kill."""
    own = PostgresServer(tmp_path_factory.mktemp("postgres"))
    try:
        own.start()
    except NotInstalledError as error:
        pytest.skip(str(error))
    yield own
    own.kill()


@pytest.fixture
def role(postgres: PostgresDatabase) -> Iterator[str]:
    """A role without any right on tables."""
    name = f"role_{postgres.name}"
    postgres.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right'")
    yield name
    postgres.execute(f"DROP ROLE {name}")


def committer(postgres: PostgresDatabase, pipeline: PipelineId = JOB, **settings: object) -> Committer:
    """A committer that has checked nothing."""
    sink = PostgresSink("t", **{"dsn": postgres.dsn, "timeout_s": 10, "lock_timeout_s": 5, **settings})  # type: ignore[arg-type]  # a test's settings
    return sink.committer(pipeline)


@pytest.mark.parametrize("before", [None, term(1)], ids=["first", "successor"])
def test_taking_it_again_renews_it(postgres: PostgresDatabase, before: Owner | None) -> None:
    require_renewal(committer(postgres), before)


def test_it_survives_a_crash_of_a_server_that_commits_asynchronously(server: PostgresServer) -> None:
    server.stop()
    with (server.data / "postgresql.conf").open("a") as settings:
        settings.write("\nsynchronous_commit = off\nwal_writer_delay = '10s'\n")
    server.start()
    database = PostgresDatabase(server.dsn, "postgres")
    assert committer(database).take_ownership(term(1), None)
    assert committer(database).take_ownership(term(2), term(1))

    server.kill()
    server.start()

    assert committer(database).owner() == term(2)


def test_without_a_server_it_is_transient_within_the_deadline(server: PostgresServer) -> None:
    database = PostgresDatabase(server.dsn, "postgres")
    server.kill()
    asking = committer(database, timeout_s=2)
    for call in (asking.owner, lambda: asking.take_ownership(term(1), None), asking.all_in_doubt):
        started = time.monotonic()
        with pytest.raises(TransientError):
            call()
        assert time.monotonic() - started < 5


def test_a_table_of_somebody_elses_is_refused(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE tpc_owners (mine int)")
    with pytest.raises(ConfigurationError, match="not the sink's own"):
        committer(postgres).take_ownership(term(1), None)


# Of all pipelines --------------------------------------------------------------------------------------------------


def test_an_owner_in_another_schema_is_found(postgres: PostgresDatabase) -> None:
    postgres.execute(f"{TABLE}; CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.t (id int, n int)")
    _, asking = checked(postgres, ONE.schema)
    sink = PostgresSink("elsewhere.t", dsn=postgres.dsn, timeout_s=10)
    far_off = sink.committer(JOB)
    far_off.check(context(ONE.schema))
    prepared(sink, branch(), ONE)
    assert far_off.take_ownership(term(5), None)
    assert [owner for _, owner in asking.all_in_doubt()] == [term(5)]


def test_owners_that_may_not_be_read_are_an_error_and_not_absent(postgres: PostgresDatabase, role: str) -> None:
    assert committer(postgres).take_ownership(term(1), None)
    asking = committer(postgres, dsn=make_conninfo(postgres.dsn, user=role, password="right"))
    with pytest.raises(ConfigurationError, match="tpc_owners") as raised:
        asking.all_in_doubt()
    assert "GRANT SELECT" in raised.value.remedy


def test_prepared_transactions_of_others_are_left_out(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    _, asking = checked(postgres, ONE.schema)
    gid = f"tpc~somebody~else's~{postgres.name}"
    with postgres.connect() as connection:
        for statement in ("BEGIN", "INSERT INTO t VALUES (1, 1)", "PREPARE TRANSACTION '{}'"):
            connection.execute(statement.format(gid.replace("'", "''")).encode())
    assert asking.all_in_doubt() == []
    postgres.execute("ROLLBACK PREPARED '{}'".format(gid.replace("'", "''")))


def test_a_writer_of_an_older_term_that_was_stopped_does_not_block_the_next_term(postgres: PostgresDatabase) -> None:
    """Its transaction is open and holds the lock on the key; it is never going to end by itself."""
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
    sink, taking = checked(postgres, ONE.schema)
    assert taking.take_ownership(term(1), None)
    stopped = sink.writer(branch(generation=1), ONE.schema, {})
    stopped.write(ONE)
    assert taking.take_ownership(term(2), term(1))
    prepared(sink, branch(generation=2), ONE)
    with pytest.raises(TransientError):
        stopped.prepare()


def test_writers_of_this_term_and_of_other_pipelines_go_on(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int, n int)")
    sink, taking = checked(postgres, ONE.schema)
    handles = [
        branch(generation=2),
        branch(generation=1, pipeline=OTHER),
        branch(generation=1, pipeline=PipelineId("job", 2)),
    ]
    writers = [sink.writer(handle, ONE.schema, {}) for handle in handles]
    for writer in writers:
        writer.write(ONE)
    assert taking.take_ownership(term(2), None)
    assert all(writer.prepare() is not None for writer in writers)
