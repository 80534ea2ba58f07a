"""Tables that `check` refuses since epochs would be lost in them, or could never be prepared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sinks.postgres.branches import JOB, branch, checked, committed, context, prepared, rows
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import ConfigurationError, DataError
from tpc.sinks.postgres.sink import PostgresSink

ONE = rows(id=[1])
CHILD = rows(id=[10], t_id=[1])
PARTITIONED = "CREATE TABLE t (id bigint PRIMARY KEY) PARTITION BY RANGE (id)"


def check(postgres: PostgresDatabase, sink: PostgresSink, *peers: PostgresSink, partitions: int = 4) -> None:
    schema = ONE.schema if sink.table.startswith("t") else CHILD.schema
    sink.committer(JOB).check(context(schema, partitions, peers))


def on(postgres: PostgresDatabase, table: str, **settings: Any) -> PostgresSink:
    return PostgresSink(table, **{"dsn": postgres.dsn, "timeout_s": 5, "lock_timeout_s": 1, **settings})


# What a crash empties ----------------------------------------------------------------------------------------------


def test_an_unlogged_partition_is_refused_however_deep(postgres: PostgresDatabase) -> None:
    postgres.execute(PARTITIONED)
    postgres.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (id)")
    postgres.execute("CREATE TABLE t1a PARTITION OF t1 FOR VALUES FROM (0) TO (10)")
    check(postgres, on(postgres, "t"))
    postgres.execute("CREATE UNLOGGED TABLE t1b PARTITION OF t1 FOR VALUES FROM (10) TO (20)")
    with pytest.raises(ConfigurationError, match="partition t1b of 't' is unlogged") as caught:
        check(postgres, on(postgres, "t"))
    assert "ALTER TABLE t1b SET LOGGED" in caught.value.remedy
    postgres.execute("ALTER TABLE t1b SET LOGGED")
    check(postgres, on(postgres, "t"))


@pytest.mark.parametrize("table", ["tpc_markers", "tpc_owners"])
def test_own_tables_that_were_made_unlogged_are_refused(postgres: PostgresDatabase, table: str) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    check(postgres, on(postgres, "t"))
    postgres.execute(f"ALTER TABLE {table} SET UNLOGGED")
    with pytest.raises(ConfigurationError, match=f"'{table}' is unlogged") as caught:
        check(postgres, on(postgres, "t"))
    assert "SET LOGGED" in caught.value.remedy
    postgres.execute(f"ALTER TABLE {table} SET LOGGED")
    check(postgres, on(postgres, "t"))


# What rewrites rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        "INSERT TO t WHERE NEW.id = 1 DO INSTEAD NOTHING",
        "INSERT TO t DO ALSO NOTIFY came",
        "UPDATE TO t DO INSTEAD NOTHING",
    ],
)
def test_a_merge_into_a_table_with_a_rule_is_refused_and_an_append_passes_by_it(
    rule: str, postgres: PostgresDatabase
) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    postgres.execute(f"CREATE RULE odd AS ON {rule}")
    merging = on(postgres, "t", key="id", merge="max")
    with pytest.raises(ConfigurationError, match="rule 'odd' of 't' rewrites what is inserted or updated") as caught:
        check(postgres, merging)
    assert "DROP RULE odd ON t" in caught.value.remedy
    sink, _ = checked(postgres, ONE.schema)
    committed(sink, branch(), ONE)
    assert postgres.execute("SELECT id FROM t") == [(1,)]
    postgres.execute("ALTER TABLE t DISABLE RULE odd")
    check(postgres, merging)


# Foreign keys between branches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("deferred", ["", " DEFERRABLE INITIALLY DEFERRED"], ids=["at once", "deferred"])
def test_two_sinks_tied_by_a_foreign_key_are_refused_by_the_child(postgres: PostgresDatabase, deferred: str) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    postgres.execute(f"CREATE TABLE c (id bigint PRIMARY KEY, t_id bigint CONSTRAINT to_t REFERENCES t{deferred})")
    parent, child = on(postgres, "t"), on(postgres, "c")
    check(postgres, parent, child)
    with pytest.raises(ConfigurationError, match="foreign key 'to_t' of 'c' refers to 't'") as caught:
        check(postgres, child, parent, partitions=1)
    assert caught.value.sink == "postgres-c"
    assert "DROP CONSTRAINT to_t" in caught.value.remedy
    check(postgres, child)  # whose parents another pipeline writes
    held = prepared(parent, branch(), ONE)
    with pytest.raises(DataError):  # which is why
        prepared(child, branch(sink="postgres-c"), CHILD)
    parent.committer(JOB).abort([held])


def test_a_key_of_partitions_is_seen_from_either_side(postgres: PostgresDatabase) -> None:
    postgres.execute(PARTITIONED)
    postgres.execute("CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100)")
    postgres.execute("CREATE TABLE c (id bigint, t_id bigint REFERENCES t) PARTITION BY RANGE (id)")
    postgres.execute("CREATE TABLE c1 PARTITION OF c FOR VALUES FROM (0) TO (100)")
    for child in ("c", "c1"):
        for parent in ("t", "t1"):
            with pytest.raises(ConfigurationError, match="foreign key"):
                check(postgres, on(postgres, child), on(postgres, parent))


def test_a_table_that_refers_to_itself_may_have_one_branch_only(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE c (id bigint PRIMARY KEY, t_id bigint CONSTRAINT to_c REFERENCES c)")
    with pytest.raises(ConfigurationError, match="'to_c' of 'c' refers to the table itself, and up to 4 tasks"):
        check(postgres, on(postgres, "c"))
    check(postgres, on(postgres, "c"), partitions=1)
    committed(on(postgres, "c"), branch(sink="postgres-c"), rows(id=[1, 2], t_id=[2, 1]))


def test_a_chain_through_a_table_that_no_sink_writes_is_no_matter(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    postgres.execute("CREATE TABLE between (id bigint PRIMARY KEY, t_id bigint REFERENCES t)")
    postgres.execute("CREATE TABLE c (id bigint PRIMARY KEY, t_id bigint REFERENCES between)")
    postgres.execute("INSERT INTO between VALUES (1, NULL)")
    parent, child = on(postgres, "t"), on(postgres, "c")
    check(postgres, parent, child)
    check(postgres, child, parent)
    held = [prepared(parent, branch(), ONE), prepared(child, branch(sink="postgres-c"), CHILD)]
    assert len(held) == 2
    for sink, committable in zip((parent, child), held, strict=True):
        sink.committer(JOB).abort([committable])


def test_two_sinks_of_one_table_that_refers_to_itself_are_refused(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE c (id bigint PRIMARY KEY, t_id bigint REFERENCES c)")
    with pytest.raises(ConfigurationError, match="which sink 'other' of this pipeline writes"):
        check(postgres, on(postgres, "c"), on(postgres, "c", name="other"), partitions=1)


def test_a_sink_in_another_database_is_not_asked_for(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY)")
    elsewhere = PostgresSink("t", dsn="host=elsewhere dbname=d", name="far")
    checked(postgres, ONE.schema)
    check(postgres, on(postgres, "t"), elsewhere)
