"""What the PostgreSQL sink refuses before the first epoch: each with its own words and a remedy."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo

from tests.sinks.postgres.branches import JOB, branch, checked, committed, context, rows
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import ConfigurationError
from tpc.sink import Sink
from tpc.sinks.postgres import check as postgres_check
from tpc.sinks.postgres import markers, own_tables
from tpc.sinks.postgres.check import Lacking, connections_lacking
from tpc.sinks.postgres.connection import borrowed
from tpc.sinks.postgres.sink import PostgresSink

ONE = rows(id=[1], words=["a"])
TABLE = "CREATE TABLE t (id bigint PRIMARY KEY, words text)"


def refusal(
    sink: PostgresSink, schema: pa.Schema = ONE.schema, partitions: int = 4, *peers: Sink
) -> ConfigurationError:
    """The error that `check` raises; it names the sink and a remedy."""
    with pytest.raises(ConfigurationError) as caught:
        sink.committer(JOB).check(context(schema, partitions, peers))
    assert caught.value.sink == sink.name
    assert caught.value.remedy
    return caught.value


def on(postgres: PostgresDatabase, **settings: Any) -> PostgresSink:
    return PostgresSink("t", **{"dsn": postgres.dsn, "timeout_s": 5, "lock_timeout_s": 0.3, **settings})


@pytest.fixture
def role(postgres: PostgresDatabase) -> Iterator[str]:
    """An ordinary role with a password; the name of a database is unique, so is its."""
    name = f"role_{postgres.name}"
    postgres.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right'")
    postgres.execute(f"GRANT {name} TO CURRENT_USER")  # who may then drop what it owns
    yield name
    postgres.execute(f"DROP OWNED BY {name}")
    postgres.execute(f"DROP ROLE {name}")


# Server ------------------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there(postgres: PostgresDatabase) -> None:
    error = refusal(on(postgres, dsn="host=127.0.0.1 port=1 user=u password=hidden dbname=d"))
    assert "cannot be reached" in error.what
    assert "hidden" not in str(error)


@pytest.mark.parametrize(
    ("setting", "slow", "sqlstate", "remedy"),
    [
        ("statement_timeout", "PERFORM pg_sleep(20);", "57014", "ALTER ROLE"),
        ("lock_timeout", "LOCK TABLE t;", "55P03", "pg_locks and pg_prepared_xacts"),
    ],
)
def test_a_time_that_is_over_is_no_matter_of_rights(
    postgres: PostgresDatabase, setting: str, slow: str, sqlstate: str, remedy: str
) -> None:
    postgres.execute(TABLE)
    postgres.execute("CREATE SCHEMA slow")  # the server's answer to the first question of `check` takes its time
    postgres.execute(
        "CREATE FUNCTION slow.pg_is_in_recovery() RETURNS bool LANGUAGE plpgsql"
        f" AS $$ BEGIN {slow} RETURN false; END $$"
    )
    settings = f"-c search_path=slow,pg_catalog,public -c {setting}=300"
    with psycopg.connect(postgres.dsn) as other:
        other.execute("LOCK TABLE t")
        error = refusal(on(postgres, dsn=make_conninfo(postgres.dsn, options=settings)))
    assert f"(SQLSTATE {sqlstate})" in error.what
    assert remedy in str(error.remedy)


def test_a_role_or_database_that_is_not_there(postgres: PostgresDatabase) -> None:
    for wrong, said in (
        ({"user": "nobody_at_all"}, "does not accept the login"),
        ({"dbname": "none_at_all"}, "has no database 'none_at_all', it does not exist"),
    ):
        error = refusal(on(postgres, dsn=make_conninfo(postgres.dsn, password="hidden", **wrong)))
        assert said in error.what
        assert "hidden" not in str(error)


def test_a_dsn_that_cannot_be_read_is_not_shown() -> None:
    for dsn in ("hidden", "postgresql://u:hidden@[h/d", "host=h passwort=hidden"):
        with pytest.raises(ConfigurationError, match="cannot be read") as caught:
            PostgresSink("t", dsn=dsn).committer(JOB).check(context(ONE.schema))
        assert "hidden" not in str(caught.value)
        assert caught.value.__suppress_context__


def test_a_server_that_is_too_old(postgres: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_check, "SERVER_VERSION_MIN", 990000)
    assert "not supported" in refusal(on(postgres)).what


def test_too_few_prepared_transactions_for_partitions_and_sinks(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    ((slots,),) = postgres.execute("SELECT current_setting('max_prepared_transactions')::int")
    fits = slots // 2
    on(postgres).committer(JOB).check(context(ONE.schema, fits))
    assert "max_prepared_transactions" in refusal(on(postgres), ONE.schema, fits + 1).remedy
    peer = PostgresSink("other", dsn=postgres.dsn)
    refusal(on(postgres), ONE.schema, fits, peer)
    elsewhere = PostgresSink("other", dsn="host=elsewhere dbname=d")
    on(postgres).committer(JOB).check(context(ONE.schema, fits, (elsewhere,)))


def test_more_tasks_at_a_time_than_a_role_has_connections(postgres: PostgresDatabase, role: str) -> None:
    postgres.execute(f"ALTER ROLE {role} CONNECTION LIMIT 5")
    sink = on(postgres, dsn=make_conninfo(postgres.dsn, user=role, password="right"))
    busy = replace(context(ONE.schema, 4), tasks_at_once=16)
    with pytest.raises(ConfigurationError) as refused:
        sink.committer(JOB).check(busy)
    assert "4 tasks at a time x 1 sinks on this server, and the driver, need 6 connections" in refused.value.what
    assert f"the CONNECTION LIMIT of role {role}: 5" in refused.value.what
    assert "spark.cores.max" in refused.value.remedy


def test_more_tasks_at_a_time_than_the_server_has_connections(postgres: PostgresDatabase) -> None:
    [(most,)] = postgres.execute("SELECT current_setting('max_connections')::int")
    lacking = connections_lacking_of(on(postgres), tasks=most)
    assert lacking is not None
    assert "max_connections less those reserved" in lacking.what
    assert connections_lacking_of(on(postgres), tasks=2) is None
    assert connections_lacking_of(on(postgres), tasks=0) is None, "not known"


def connections_lacking_of(sink: PostgresSink, tasks: int) -> Lacking | None:
    with borrowed(sink.dsn, sink.timeout_s) as connection:
        return connections_lacking(connection, sink, replace(context(ONE.schema, 10_000), tasks_at_once=tasks))


# Table -------------------------------------------------------------------------------------------------------------


def test_a_table_that_is_not_there(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE SCHEMA s; CREATE TABLE s.t (id int)")
    assert "no table 't'" in refusal(on(postgres)).what
    with pytest.raises(ConfigurationError, match="no table"):
        on(postgres).committer(JOB).identity()


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ("CREATE VIEW t AS SELECT 1::bigint AS id, 'a' AS words", "a view"),
        ("CREATE MATERIALIZED VIEW t AS SELECT 1::bigint AS id, 'a' AS words", "a materialized view"),
        ("CREATE UNLOGGED TABLE t (id bigint, words text)", "unlogged"),
    ],
)
def test_something_that_is_no_ordinary_table(postgres: PostgresDatabase, made: str, what: str) -> None:
    postgres.execute(made)
    assert what in refusal(on(postgres)).what


def test_a_partitioned_table_is_an_ordinary_one(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words text) PARTITION BY RANGE (id)")
    postgres.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)")
    sink, _ = checked(postgres, ONE.schema, key="id", merge="max")
    committed(sink, branch(), ONE)
    assert postgres.execute("SELECT * FROM t") == [(1, "a")]


def test_row_level_security(postgres: PostgresDatabase, role: str) -> None:
    postgres.execute(TABLE + "; ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    postgres.execute(f"GRANT ALL ON t TO {role}; GRANT CREATE ON SCHEMA public TO {role}")
    assert "row-level security" in refusal(on(postgres, dsn=make_conninfo(postgres.dsn, user=role))).what


def test_a_column_that_is_not_there(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint)")
    assert "no column 'words'" in refusal(on(postgres)).what


def test_a_column_that_the_server_generates(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint, words text GENERATED ALWAYS AS (id::text || '!') STORED)")
    assert "generated" in refusal(on(postgres)).what


def test_a_column_that_must_be_written_and_is_not(postgres: PostgresDatabase) -> None:
    postgres.execute(
        "CREATE TABLE t (id bigint, words text, a int NOT NULL DEFAULT 1, b int GENERATED ALWAYS AS IDENTITY,"
        " c int NOT NULL GENERATED ALWAYS AS (1) STORED, d int)"
    )
    on(postgres).committer(JOB).check(context(ONE.schema))
    postgres.execute("ALTER TABLE t ADD must int NOT NULL")
    assert "'must' is NOT NULL" in refusal(on(postgres)).what


NOW = dt.datetime(2020, 1, 1)
REFUSED = [
    (pa.array(["1"]), "integer"),
    (pa.array(["1"]), "boolean"),
    (pa.array(["1"]), "bytea"),
    (pa.array(["2020-01-01"]), "date"),
    (pa.array(["{1}"]), "text[]"),
    (pa.array([1.5]), "integer"),
    (pa.array([1.5]), "real"),
    (pa.array([1.5]), "numeric(10,2)"),
    (pa.array([1], pa.int64()), "double precision"),
    (pa.array([1], pa.int32()), "real"),
    (pa.array([1]), "boolean"),
    (pa.array([1]), "text"),
    (pa.array([1]), "numeric(10,-2)"),
    (pa.array([Decimal("1.5")], pa.decimal128(4, 2)), "numeric(4,1)"),
    (pa.array([Decimal("1.5")], pa.decimal128(4, 2)), "integer"),
    (pa.array([Decimal("1.5")], pa.decimal128(4, 2)), "double precision"),
    (pa.array([True]), "integer"),
    (pa.array([b"a"]), "text"),
    (pa.array([NOW.date()]), "timestamp without time zone"),
    (pa.array([NOW]), "timestamp with time zone"),
    (pa.array([NOW], pa.timestamp("us", "UTC")), "timestamp without time zone"),
    (pa.array([NOW], pa.timestamp("us")), "timestamp(3) without time zone"),
    (pa.array([NOW], pa.timestamp("ns")), "timestamp without time zone"),
    (pa.array([NOW.time()], pa.time64("us")), "time(0) without time zone"),
    (pa.array([[1]]), "integer[]"),
    (pa.array([{"a": 1}]), "jsonb"),
    (pa.array([dt.timedelta(1)]), "interval"),
]


@pytest.mark.parametrize(("values", "type_"), REFUSED, ids=[f"{v.type}->{t}" for v, t in REFUSED])
def test_a_type_that_would_be_refused_or_changed(postgres: PostgresDatabase, values: pa.Array, type_: str) -> None:
    postgres.execute(f"CREATE TABLE t (v {type_})")
    error = refusal(on(postgres), rows(v=values).schema)
    assert "'v'" in error.what
    assert type_.split("(", maxsplit=1)[0] in error.what


def test_a_domain_over_a_domain_is_judged_by_the_type_under_both(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE DOMAIN price AS numeric(8,1); CREATE DOMAIN low AS price CHECK (value < 9)")
    postgres.execute("CREATE DOMAIN there AS bigint NOT NULL; CREATE DOMAIN number AS there")
    postgres.execute("CREATE TABLE t (id number, v low)")
    fits = rows(id=pa.array([1], pa.int64()), v=pa.array([Decimal("1.5")], pa.decimal128(3, 1)))
    sink, _ = checked(postgres, fits.schema)
    committed(sink, branch(), fits)
    assert postgres.execute("SELECT id, v FROM t") == [(1, Decimal("1.5"))]
    rounded = rows(id=pa.array([1], pa.int64()), v=pa.array([Decimal("1.25")], pa.decimal128(3, 2)))
    with pytest.raises(ConfigurationError, match="column 'v' is low and its values come as decimal128"):
        checked(postgres, rounded.schema)
    with pytest.raises(ConfigurationError, match="column 'id' is NOT NULL"):
        checked(postgres, fits.select(["v"]).schema)


def test_a_domain_is_judged_by_its_base_type(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE DOMAIN price AS numeric(8,1); CREATE TABLE t (v price)")
    fits, too_fine = (rows(v=pa.array([Decimal(1)], pa.decimal128(8, s))) for s in (1, 2))
    checked(postgres, fits.schema)
    assert "scale" in refusal(on(postgres), too_fine.schema).remedy


# Merge -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE t (id bigint, words text)",
        "CREATE TABLE t (id bigint, words text, PRIMARY KEY (id, words))",
        "CREATE TABLE t (id bigint UNIQUE DEFERRABLE, words text)",
        "CREATE TABLE t (id bigint, words text); CREATE UNIQUE INDEX ON t (id) WHERE id > 0",
        "CREATE TABLE t (id bigint, words text); CREATE UNIQUE INDEX ON t ((id + 1))",
        "CREATE TABLE t (id bigint, words text); CREATE INDEX ON t (id)",
    ],
)
def test_a_key_without_a_unique_index(postgres: PostgresDatabase, made: str) -> None:
    postgres.execute(made)
    assert "unique index" in refusal(on(postgres, key="id", merge="max")).what


def test_a_unique_index_with_other_columns_included_is_enough(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint, words text); CREATE UNIQUE INDEX ON t (id) INCLUDE (words)")
    sink, _ = checked(postgres, ONE.schema, key="id", merge="max")
    committed(sink, branch(), ONE)


def test_columns_that_no_row_has_and_columns_without_a_merge(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    assert "['nowhere']" in refusal(on(postgres, key="id", merge={"nowhere": "add"})).what
    assert "['words']" in refusal(on(postgres, key="id", merge={})).what


def test_adding_what_cannot_be_added(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    assert "cannot be added" in refusal(on(postgres, key="id", merge="add")).what


def test_an_identity_that_the_server_alone_may_write(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, words text)")
    assert "IDENTITY" in refusal(on(postgres, key="id", merge="max")).what
    checked(postgres, ONE.schema)  # COPY may


# Rights and neighbours ---------------------------------------------------------------------------------------------


def test_privileges_that_are_missing(postgres: PostgresDatabase, role: str) -> None:
    postgres.execute(TABLE)
    dsn = make_conninfo(postgres.dsn, user=role)
    assert "INSERT on column 'id'" in refusal(on(postgres, dsn=dsn)).what
    postgres.execute(f"GRANT INSERT ON t TO {role}")
    assert "UPDATE" in refusal(on(postgres, dsn=dsn, key="id", merge="max")).what
    postgres.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    assert "CREATE TABLE" in refusal(on(postgres, dsn=dsn)).remedy
    checked(postgres, ONE.schema)  # somebody who may makes the sink's own tables
    assert "no INSERT privilege" in refusal(on(postgres, dsn=dsn)).what
    postgres.execute(f"GRANT INSERT, SELECT ON tpc_owners TO {role}")
    assert "no UPDATE privilege on the sink's table 'tpc_owners'" in refusal(on(postgres, dsn=dsn)).what
    postgres.execute(f"GRANT UPDATE ON tpc_owners TO {role}")
    postgres.execute(f"GRANT INSERT, SELECT, DELETE ON tpc_markers TO {role}")
    on(postgres, dsn=dsn).committer(JOB).check(context(ONE.schema))


def test_a_merging_sink_shares_its_table_with_no_other(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    merging = on(postgres, key="id", merge="max")
    for peer in (on(postgres, name="b", schema="public"), on(postgres, name="c", key="id", merge="min")):
        error = refusal(merging, ONE.schema, 4, peer)
        assert peer.name in error.what
        refusal(peer, ONE.schema, 4, merging)
    on(postgres).committer(JOB).check(context(ONE.schema, 4, [on(postgres, name="b")]))


# The sink's own tables ---------------------------------------------------------------------------------------------


def test_many_checks_at_once_make_the_tables_once(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    sinks = [on(postgres, key="id", merge="max", lock_timeout_s=5) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda sink: sink.committer(JOB).check(context(ONE.schema)), sinks))
    own = "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'tpc%'"
    assert postgres.execute(own) == [(3,)]  # owners, markers, staging


def test_a_check_waits_for_another_that_is_making_the_table(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    sink = on(postgres, lock_timeout_s=20)
    with postgres.connect() as other, ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute("SELECT pg_advisory_xact_lock(%s)", [own_tables.ONE_AT_A_TIME])
            other.execute(markers.create_markers(sink))
            check = pool.submit(sink.committer(JOB).check, context(ONE.schema))
            deadline = time.monotonic() + 10
            while not postgres.execute("SELECT 1 FROM pg_locks WHERE NOT granted"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        check.result(timeout=20)


def test_a_foreign_table_of_the_same_name_is_left_alone(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE + "; CREATE TABLE tpc_markers (mine int)")
    assert "not the sink's own" in refusal(on(postgres)).what
    assert postgres.execute("SELECT count(*) FROM tpc_markers") == [(0,)]


def test_the_own_tables_stand_in_the_schema_of_the_target(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE SCHEMA s; CREATE TABLE s.t (id bigint PRIMARY KEY, words text)")
    sink = PostgresSink("s.t", dsn=postgres.dsn, key="id", merge="max")
    sink.committer(JOB).check(context(ONE.schema))
    assert {s for (s,) in postgres.execute("SELECT schemaname FROM pg_tables WHERE tablename LIKE 'tpc%'")} == {"s"}


def test_a_staging_table_follows_the_types_of_the_target(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words varchar(2))")
    checked(postgres, ONE.schema, key="id", merge="max")
    postgres.execute("ALTER TABLE t ALTER words TYPE text")
    sink, _ = checked(postgres, ONE.schema, key="id", merge="max")
    committed(sink, branch(), rows(id=[1], words=["longer than two"]))


def test_a_forgotten_prepared_transaction_does_not_block_for_ever(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words varchar(2))")
    checked(postgres, ONE.schema, key="id", merge="max")
    ((staging,),) = postgres.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'tpc_staging%'")
    postgres.execute(f"BEGIN; LOCK TABLE {staging} IN ACCESS SHARE MODE; PREPARE TRANSACTION 'forgotten'")
    postgres.execute("ALTER TABLE t ALTER words TYPE text")
    error = refusal(on(postgres, key="id", merge="max"))
    assert "'forgotten'" in error.what
    assert "ROLLBACK PREPARED" in error.remedy
