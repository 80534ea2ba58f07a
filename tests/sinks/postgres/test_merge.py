"""Merging by key in PostgreSQL: what is there, what comes, what stands afterwards; each epoch counted once."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.sinks.postgres.branches import JOB, branch, checked, committed, context, prepared, rows, verdicts
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import ConfigurationError, DataError
from tpc.handles import DRIVER_PARTITION
from tpc.merge import MergeHow, MergePlan
from tpc.sink import Verdict
from tpc.sinks.postgres.sink import PostgresSink

TABLE = "CREATE TABLE t (k text PRIMARY KEY, n bigint, low int, high int, seen int, latest text, at int)"
EVERY = {"n": "add", "low": "min", "high": "max", "seen": "keep", "latest": "replace", "at": "max"}
SCHEMA = pa.schema(
    {"k": pa.string(), **{c: pa.int64() for c in ("n", "low", "high", "seen")}, "latest": pa.string(), "at": pa.int64()}
)


def tally(*values: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in values], schema=SCHEMA)


def stored(postgres: PostgresDatabase) -> list[tuple[Any, ...]]:
    return postgres.execute("SELECT * FROM t ORDER BY k")


def test_each_merge_does_what_it_says_over_two_epochs(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    sink, _ = checked(postgres, SCHEMA, key="k", merge=EVERY, order_by="at")
    committed(sink, branch(1), tally(("a", 1, 5, 5, 1, "old", 10), ("b", 2, 1, 1, 1, "x", 10)))
    committed(sink, branch(2), tally(("a", 10, 7, 7, 2, "new", 11), ("c", 5, 1, 1, 1, "y", 1)))
    assert stored(postgres) == [
        ("a", 11, 5, 7, 1, "new", 11),
        ("b", 2, 1, 1, 1, "x", 10),
        ("c", 5, 1, 1, 1, "y", 1),
    ]


def test_a_null_changes_no_sum_and_no_bound_and_is_taken_with_its_row(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    sink, _ = checked(postgres, SCHEMA, key="k", merge=EVERY, order_by="at")
    full, empty = (1, 5, 5, 1, "old", 10), (None,) * 6
    committed(sink, branch(1), tally(("full", *full), ("empty", *empty)))
    committed(sink, branch(2), tally(("full", *empty), ("empty", *full)))
    assert stored(postgres) == [("empty", 1, 5, 5, None, "old", 10), ("full", *full)]
    committed(sink, branch(3), tally(("full", None, None, None, None, None, 99)))
    assert stored(postgres)[1] == ("full", 1, 5, 5, 1, None, 99)


def test_replace_keeps_the_stored_row_against_an_older_one(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    sink, _ = checked(postgres, SCHEMA, key="k", merge=EVERY, order_by="at")
    committed(sink, branch(1), tally(("a", 0, 0, 0, 0, "newer", 20)))
    committed(sink, branch(2), tally(("a", 0, 0, 0, 0, "older", 19)))
    assert stored(postgres)[0][5:] == ("newer", 20)
    committed(sink, branch(3), tally(("a", 0, 0, 0, 0, "same time", 20)))
    assert stored(postgres)[0][5:] == ("same time", 20)  # of equals the greater, in whatever epoch it comes
    committed(sink, branch(4), tally(("a", 0, 0, 0, 0, "equal", 20)))
    assert stored(postgres)[0][5:] == ("same time", 20)


def test_an_order_column_that_is_not_written_lets_the_later_epoch_win(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, latest text)")
    first, second = rows(k=[1], latest=["a"], at=[20]), rows(k=[1], latest=["b"], at=[10])
    sink, _ = checked(postgres, first.schema, key="k", merge={"latest": "replace"}, order_by="at")
    committed(sink, branch(1), first)
    committed(sink, branch(2), second)
    assert stored(postgres) == [(1, "b")]


def test_keeping_every_column_only_inserts(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, first text)")
    sink, _ = checked(postgres, rows(k=[1], first=["a"]).schema, key="k", merge="keep")
    committed(sink, branch(1), rows(k=[1], first=["a"]))
    committed(sink, branch(2), rows(k=[1, 2], first=["b", "b"]))
    assert stored(postgres) == [(1, "a"), (2, "b")]


def test_a_key_of_two_columns_in_any_order(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (hour int, origin text, n int, PRIMARY KEY (origin, hour))")
    batch = rows(hour=[1, 2], origin=["JFK", "JFK"], n=[1, 1])
    sink, _ = checked(postgres, batch.schema, key=("hour", "origin"), merge="add")
    for epoch in (1, 2):
        committed(sink, branch(epoch), batch)
    assert postgres.execute("SELECT * FROM t ORDER BY hour") == [(1, "JFK", 2), (2, "JFK", 2)]


def test_columns_that_are_not_written_keep_defaults_and_values(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, n int, note text NOT NULL DEFAULT 'by default')")
    sink, _ = checked(postgres, rows(k=[1], n=[1]).schema, key="k", merge="add")
    committed(sink, branch(1), rows(k=[1], n=[1]))
    postgres.execute("UPDATE t SET note = 'by hand'")
    committed(sink, branch(2), rows(k=[1, 2], n=[1, 1]))
    assert stored(postgres) == [(1, 2, "by hand"), (2, 1, "by default")]


def test_a_gathered_branch_is_added_exactly_once_and_staging_stays_empty(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, n int)")
    batch = rows(k=list(range(1000)), n=[1] * 1000)
    sink, committer = checked(postgres, batch.schema, key="k", merge="add")
    gathered = prepared(sink, branch(1, DRIVER_PARTITION, 0), batch.slice(0, 500), batch.slice(500))
    assert gathered.rows == 1000
    assert stored(postgres) == []
    assert verdicts(committer.commit([gathered])) == [Verdict.COMMITTED]
    assert verdicts(committer.commit([gathered])) == [Verdict.ALREADY]
    assert postgres.execute("SELECT count(*), sum(n) FROM t") == [(1000, 1000)]
    ((staging,),) = postgres.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'tpc_staging%'")
    assert postgres.execute(f"SELECT count(*) FROM {staging}") == [(0,)]


def test_rows_of_another_handle_in_the_staging_table_are_left_alone(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, n int)")
    batch = rows(k=[1], n=[1])
    sink, _ = checked(postgres, batch.schema, key="k", merge="add")
    ((staging,),) = postgres.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'tpc_staging%'")
    postgres.execute(f"INSERT INTO {staging} VALUES ('another', 1, 100)")
    committed(sink, branch(), batch)
    assert stored(postgres) == [(1, 1)]
    assert postgres.execute(f"SELECT * FROM {staging}") == [("another", 1, 100)]


def test_branches_with_different_keys_are_prepared_side_by_side(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, n int)")
    one, two = rows(k=[1, 3], n=[1, 1]), rows(k=[2, 4], n=[1, 1])
    sink, committer = checked(postgres, one.schema, key="k", merge="add")
    for epoch in (1, 2):
        both = [prepared(sink, branch(epoch, 0), one), prepared(sink, branch(epoch, 1), two)]
        assert verdicts(committer.commit(both)) == [Verdict.COMMITTED] * 2
    assert stored(postgres) == [(1, 2), (2, 2), (3, 2), (4, 2)]


def test_rows_of_one_key_in_a_branch_are_reduced_by_the_server(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, n int)")
    twice = rows(k=[1, 2, 2], n=[1, 1, 1])
    sink, _ = checked(postgres, twice.schema, key="k", merge="add")
    committed(sink, branch(), twice)
    assert stored(postgres) == [(1, 1), (2, 2)]


def test_a_sum_of_an_epoch_may_leave_its_column_when_what_is_stored_brings_it_back(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, n int, d numeric(5, 2))")
    least, most = -(2**31), 2**31 - 1
    batch = rows(k=[1], n=[least], d=pa.array([Decimal("-999.99")]))
    sink, _ = checked(postgres, batch.schema, key="k", merge="add")
    committed(sink, branch(1), batch)
    wide = rows(k=[1], n=[most - least], d=pa.array([Decimal("1999.98")]))
    committed(sink, branch(2), wide)
    assert stored(postgres) == [(1, most, Decimal("999.99"))]
    with pytest.raises(DataError) as caught:
        prepared(sink, branch(3), rows(k=[0, 1], n=[1, 1], d=pa.array([Decimal("0.00")] * 2)))
    assert caught.value.key == "k=1"


def test_keep_with_a_stored_order_takes_the_first_row_whole_in_whatever_epoch_it_comes(
    postgres: PostgresDatabase,
) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, name text, at int)")
    later = rows(k=[1], name=["later"], at=[2])
    sink, _ = checked(postgres, later.schema, key="k", merge="keep", order_by="at")
    committed(sink, branch(1), later)
    committed(sink, branch(2), rows(k=[1], name=pa.array([None], pa.string()), at=[1]))
    assert stored(postgres) == [(1, None, 1)]


@pytest.mark.parametrize(
    ("column", "settings", "words"),
    [
        ("v json", {"key": "k", "merge": "max"}, "has no order"),
        ("v text", {"key": "k", "merge": {"v": "replace"}, "order_by": "at"}, "does not get the order column"),
    ],
)
def test_what_a_type_cannot_do_is_refused(
    postgres: PostgresDatabase, column: str, settings: dict[str, Any], words: str
) -> None:
    postgres.execute(f"CREATE TABLE t (k uuid PRIMARY KEY, {column})")
    names = ["k", "v", *([settings["order_by"]] if "order_by" in settings else [])]
    with pytest.raises(ConfigurationError, match=words):
        checked(postgres, pa.schema([(name, pa.string()) for name in names]), **settings)


def test_a_key_of_several_spellings_is_not_spread_over_tasks(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k uuid PRIMARY KEY, n int)")
    sink = PostgresSink("t", dsn=postgres.dsn, key="k", merge="add")
    with pytest.raises(ConfigurationError, match="partition_by"):
        sink.committer(JOB).check(context(pa.schema([("k", pa.string()), ("n", pa.int32())]), partitions=4))


def test_one_word_stands_for_all_columns_that_are_not_key(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, a int, b int)")
    schema = rows(k=[1], a=[1], b=[1]).schema
    sink, _ = checked(postgres, schema, key="k", merge="add")
    assert sink.plan_for(schema.names) == MergePlan(("k",), {"a": MergeHow.ADD, "b": MergeHow.ADD})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"merge": "add"}, "key"),
        ({"merge": {"a": "sum"}, "key": "k"}, "'sum'"),
        ({"merge": "replace", "key": "k"}, "order column"),
        ({"merge": {"a": "replace"}, "key": "k"}, "order column"),
        ({"merge": {"k": "add"}, "key": "k"}, "key columns"),
        ({"order_by": "at"}, "order_by"),
    ],
)
def test_a_merge_that_cannot_be_meant_is_refused_at_once(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        PostgresSink("t", dsn="host=nowhere", **wrong)
