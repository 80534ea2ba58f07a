"""A row that PostgreSQL refuses: the error names column and key of the first one, and nothing of the branch is left."""

from __future__ import annotations

import datetime as dt
import pickle
import time
from typing import Any

import pyarrow as pa
import pytest

from tests.sinks.postgres.branches import JOB, branch, checked, committed, prepared, rows
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import ConfigurationError, DataError, HistoryMismatchError, StateMachineError, TransientError
from tpc.handles import PipelineId


def refused(postgres: PostgresDatabase, *batches: pa.RecordBatch, **settings: Any) -> DataError:
    """The error of a branch of these batches in epoch 7; it must leave nothing behind and survive a pickle."""
    sink, _ = checked(postgres, batches[0].schema, **settings)
    writer = sink.writer(branch(7), batches[0].schema, {})
    with pytest.raises(DataError) as caught:
        for batch in batches:
            writer.write(batch)
        writer.prepare()
    writer.abort()
    error: DataError = pickle.loads(pickle.dumps(caught.value))
    assert (error.sink, error.epoch, error.pipeline) == ("postgres-t", 7, "job#1")
    assert error.remedy
    assert postgres.in_doubt() == []
    assert postgres.execute("SELECT count(*) FROM tpc_markers") == [(0,)]
    return error


# Append: the row on which COPY stopped -----------------------------------------------------------------------------


def test_a_value_that_is_too_long(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, code varchar(3))")
    error = refused(postgres, rows(id=[1, 2, 3], code=["a", "abcd", "abcde"]))
    assert (error.column, error.key) == ("code", "id=2")


def test_a_null_where_none_may_be(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL)")
    error = refused(postgres, rows(id=[1, 2, 3], code=["a", None, None]))
    assert (error.column, error.key) == ("code", "id=2")


def test_a_null_key(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, code text)")
    error = refused(postgres, rows(id=[1, None], code=["a", "b"]))
    assert (error.column, error.key) == ("id", "id=None")


def test_a_number_out_of_range(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, small smallint)")
    error = refused(postgres, rows(id=[1, 2], small=[1, 40_000]))
    assert (error.column, error.key) == ("small", "id=2")


def test_a_key_that_is_there_already(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, code text); INSERT INTO t VALUES (2, 'x')")
    error = refused(postgres, rows(id=[1, 2, 3], code=["a", "b", "c"]))
    assert (error.column, error.key) == ("id", "id=2")


def test_a_key_that_is_twice_in_a_branch_in_another_batch(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (origin text, hour int, PRIMARY KEY (origin, hour))")
    first, second = rows(origin=["JFK", "JFK"], hour=[1, 2]), rows(origin=["EWR", "JFK"], hour=[1, 2])
    error = refused(postgres, first, second)
    assert error.column == "origin, hour"
    assert error.key == "origin='JFK', hour=2"


def test_a_check_constraint(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, n int CONSTRAINT positive CHECK (n > 0))")
    error = refused(postgres, rows(id=[1, 2], n=[1, -1]))
    assert (error.column, error.key) == ("n", "id=2")
    assert "positive" in error.what


def test_a_foreign_key(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE carriers (c text PRIMARY KEY); INSERT INTO carriers VALUES ('UA')")
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, carrier text REFERENCES carriers)")
    error = refused(postgres, rows(id=[1, 2, 3], carrier=["UA", "XX", "XX"]))
    assert (error.column, error.key) == ("carrier", "id=2")


def test_a_deferred_constraint_is_met_before_the_branch_is_prepared(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE carriers (c text PRIMARY KEY)")
    postgres.execute(
        "CREATE TABLE t (id int PRIMARY KEY, carrier text REFERENCES carriers DEFERRABLE INITIALLY DEFERRED)"
    )
    error = refused(postgres, rows(id=[1], carrier=["XX"]))
    assert (error.column, error.key) == ("carrier", "carrier=XX")


def test_text_that_is_no_json(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, doc jsonb)")
    error = refused(postgres, rows(id=[1, 2], doc=["{}", "{broken"]))
    assert (error.column, error.key) == ("doc", "id=2")


def test_a_nul_in_a_text(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text)")
    error = refused(postgres, rows(id=[1, 2], a=["x", "y"], b=["x", "y\0z"]))
    assert (error.column, error.key) == ("b", "id=2")


def test_a_trigger_that_refuses(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY)")
    postgres.execute(
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.id = 2 THEN RAISE EXCEPTION 'not two'; END IF; RETURN NEW; END $$"
    )
    postgres.execute("CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()")
    error = refused(postgres, rows(id=[1, 2]))
    assert error.key == "id=2"
    assert "not two" in error.what


def test_a_time_that_python_cannot_hold(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (at timestamp, n smallint)")
    at = pa.array([400_000_000_000_000_000], pa.timestamp("us"))
    error = refused(postgres, rows(at=at, n=[100_000]))
    assert error.column == "n"
    assert "n=100000" in error.key


@pytest.mark.parametrize("breaks", ["\n", "\r", "\r\n", "a\n\\.\nb"])
def test_the_row_is_right_below_rows_with_line_breaks(postgres: PostgresDatabase, breaks: str) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, note text, code varchar(1))")
    many = 3000  # more than COPY inserts at once
    batch = rows(id=list(range(many)), note=[breaks] * many, code=["x"] * (many - 2) + ["too long", "x"])
    assert refused(postgres, batch).key == f"id={many - 2}"
    postgres.execute("INSERT INTO t VALUES (7)")
    first = rows(id=[7, *range(100, 200)], note=[breaks] * 101, code=["x"] * 101)
    assert refused(postgres, first).key == "id=7"


def test_the_key_setting_says_what_names_a_row(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (flight text, day date, code varchar(1))")
    batch = rows(flight=["UA1"], day=[dt.date(2013, 1, 1)], code=["long"])
    assert refused(postgres, batch).key == "flight='UA1', day=datetime.date(2013, 1, 1), code='long'"
    assert refused(postgres, batch, key="flight").key == "flight='UA1'"


# Upsert: while it is staged, and while it is merged ----------------------------------------------------------------


def test_a_staged_row_that_does_not_fit_its_type(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, code varchar(2))")
    error = refused(postgres, rows(k=[5, 6], code=["a", "abc"]), key="k", merge="max")
    assert (error.column, error.key) == ("code", "k=6")


def test_a_staged_null_key(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, n int)")
    error = refused(postgres, rows(k=[5, None], n=[1, 1]), key="k", merge="add")
    assert (error.column, error.key) == ("k", "k=None")


def test_the_first_row_that_cannot_be_merged(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, n int CHECK (n < 100))")
    postgres.execute("INSERT INTO t SELECT k, 98 + k % 2 FROM generate_series(700, 703) k")
    error = refused(postgres, rows(k=list(range(1000, 0, -1)), n=[1] * 1000), key="k", merge="add")
    assert (error.column, error.key) == ("n", "k=701")


def test_a_sum_that_overflows(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k text PRIMARY KEY, n int); INSERT INTO t VALUES ('b', 2147483647)")
    error = refused(postgres, rows(k=["a", "b", "c"], n=[1, 1, 1]), key="k", merge="add")
    assert error.key == "k='b'"


def test_another_unique_column_in_the_way_of_a_merge(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, mail text UNIQUE); INSERT INTO t VALUES (1, 'a@b')")
    error = refused(postgres, rows(k=[2, 3], mail=["c@d", "a@b"]), key="k", merge="max")
    assert (error.column, error.key) == ("mail", "k=3")


# What is no row's fault --------------------------------------------------------------------------------------------


def test_a_losers_lock_is_given_up_in_time_and_its_gid_is_named(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, code text)")
    batch = rows(id=[1, 2], code=["a", "b"])
    sink, _ = checked(postgres, batch.schema, lock_timeout_s=0.5)
    loser = prepared(sink, branch(7, partition=3, attempt=1), batch.slice(1))
    sibling = prepared(sink, branch(7, partition=1, attempt=2), rows(id=[9], code=["i"]))
    postgres.execute("BEGIN; CREATE TABLE elsewhere (); PREPARE TRANSACTION 'not in the way'")
    writer = sink.writer(branch(7, partition=3, attempt=5), batch.schema, {})
    started = time.monotonic()
    with pytest.raises(TransientError) as caught:
        writer.write(batch)
    assert 0.4 < time.monotonic() - started < 3
    assert caught.value.details["holders"] == [loser.resource, sibling.resource]
    assert loser.resource in caught.value.what
    assert "id=2" in caught.value.what
    writer.abort()
    assert postgres.in_doubt() == ["not in the way", sibling.resource, loser.resource]


def test_a_merge_waits_no_longer_for_a_lock(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (k int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)")
    batch = rows(k=[1], n=[1])
    sink, _ = checked(postgres, batch.schema, key="k", merge="add", lock_timeout_s=0.3)
    older = prepared(sink, branch(6, pipeline=PipelineId("old")), batch)
    with pytest.raises(TransientError, match=older.resource):
        prepared(sink, branch(7), batch)


def test_a_table_dropped_or_changed_while_the_pipeline_runs(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int)")
    batch = rows(id=[1])
    sink, _ = checked(postgres, batch.schema)
    postgres.execute("DROP TABLE t")
    with pytest.raises(ConfigurationError) as caught:
        prepared(sink, branch(7), batch)
    assert caught.value.epoch == 7


def test_a_trigger_that_touches_a_temporary_table(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int)")
    postgres.execute(
        "CREATE FUNCTION temp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " CREATE TEMP TABLE IF NOT EXISTS scratch (i int); RETURN NEW; END $$"
    )
    postgres.execute("CREATE TRIGGER temp BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION temp()")
    batch = rows(id=[1])
    sink, _ = checked(postgres, batch.schema)
    with pytest.raises(ConfigurationError, match="temporary"):
        prepared(sink, branch(7), batch)


def test_a_branch_that_is_committed_already_is_another_history(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY)")
    sink, _ = checked(postgres, rows(id=[1]).schema)
    committed(sink, branch(7), rows(id=[1]))
    with pytest.raises(HistoryMismatchError, match=str(branch(7))):
        prepared(sink, branch(7), rows(id=[2]))


def test_a_branch_that_is_prepared_already_is_named(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY)")
    sink, _ = checked(postgres, rows(id=[1]).schema, lock_timeout_s=0.3)
    first = prepared(sink, branch(7), rows(id=[1]))
    with pytest.raises(TransientError, match=first.resource):
        prepared(sink, branch(7), rows(id=[2]))


def test_a_failed_branch_does_not_go_on_as_a_shorter_one(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY)")
    bad, good = rows(id=[1, 1]), rows(id=[2])
    sink, _ = checked(postgres, good.schema)
    writer = sink.writer(branch(), good.schema, {})
    with pytest.raises(DataError):
        writer.write(bad)
    with pytest.raises(StateMachineError):
        writer.write(good)
    with pytest.raises(StateMachineError):
        writer.prepare()


def test_a_failed_branch_may_be_repeated_at_once(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY)")
    refused(postgres, rows(id=[1, 1]))
    sink, committer = checked(postgres, rows(id=[1]).schema)
    committed(sink, branch(7, attempt=2, generation=2), rows(id=[1]))
    assert committer.in_doubt() == []
    assert sink.committer(JOB).newest_marker() is not None
