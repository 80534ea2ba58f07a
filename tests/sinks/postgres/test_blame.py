"""Errors of a real server whose code alone does not look like a row's fault, and locks of other pipelines."""

from __future__ import annotations

import random
import string
from typing import Any

import pyarrow as pa
import pytest

from tests.sinks.postgres.branches import branch, checked, committed, prepared, rows
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import ConfigurationError, DataError, TpcError, TransientError
from tpc.handles import PipelineId
from tpc.sink import Verdict
from tpc.sinks.postgres import own_tables
from tpc.sinks.postgres.holders import remedy_for_holders
from tpc.sinks.postgres.statements import gid_of

MERGED = {"key": "id", "merge": "max"}
both_ways = pytest.mark.parametrize("settings", [{}, MERGED], ids=["append", "merge"])


def incompressible(length: int) -> str:
    return "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=length))


def error_of(postgres: PostgresDatabase, batch: pa.RecordBatch, **settings: Any) -> TpcError:
    """What a branch of the rows ends with; nothing of it is left."""
    sink, _ = checked(postgres, batch.schema, **settings)
    writer = sink.writer(branch(), batch.schema, {})
    with pytest.raises(TpcError) as caught:
        writer.write(batch)
        writer.prepare()
    writer.abort()
    assert postgres.in_doubt() == []
    assert postgres.execute("SELECT count(*) FROM t") == [(0,)]
    return caught.value


def trigger(postgres: PostgresDatabase, body: str) -> None:
    postgres.execute(f"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN new; END $$")
    postgres.execute("CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()")


# Class 54: limits of the server ------------------------------------------------------------------------------------


@both_ways
def test_a_value_too_large_for_an_index_is_a_row_s_fault(postgres: PostgresDatabase, settings: dict[str, str]) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words text); CREATE INDEX ON t (words)")
    error = error_of(postgres, rows(id=[1, 2], words=["a", incompressible(9000)]), **settings)
    assert isinstance(error, DataError)
    assert "54000" in error.what
    assert error.key == "id=2"


@both_ways
def test_a_limit_that_a_trigger_meets_is_the_row_s_fault(postgres: PostgresDatabase, settings: dict[str, str]) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words text, w tsvector)")
    trigger(postgres, "new.w := to_tsvector('simple', new.words);")
    many = " ".join(f"w{number:06}" for number in range(200_000))
    error = error_of(postgres, rows(id=[1, 2], words=["a", many]), **settings)
    assert isinstance(error, DataError)
    assert error.key == "id=2"


def test_json_nested_too_deeply_is_the_row_s_fault(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, doc jsonb)")
    error = error_of(postgres, rows(id=[1, 2], doc=["{}", "[" * 20_000 + "]" * 20_000]))
    assert isinstance(error, DataError)
    assert "54001" in error.what
    assert (error.column, error.key) == ("doc", "id=2")


# Exceptions of triggers --------------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("code", ["P0001", "XX123", "MY001", "U0001", "55000", "42501", "38001", "2F005", "0A000"])
def test_a_trigger_refuses_a_row_by_whatever_code(
    postgres: PostgresDatabase, settings: dict[str, str], code: str
) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words text)")
    trigger(postgres, f"IF new.words = 'bad' THEN RAISE EXCEPTION 'rule 7' USING errcode = '{code}'; END IF;")
    error = error_of(postgres, rows(id=[1, 2, 3], words=["ok", "bad", "ok"]), **settings)
    assert isinstance(error, DataError)
    assert "rule 7" in error.what
    assert error.key == "id=2"


@pytest.mark.parametrize("code", ["40001", "53200", "57014", "08000"])
def test_a_trigger_may_ask_for_another_try(postgres: PostgresDatabase, code: str) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words text)")
    trigger(postgres, f"RAISE EXCEPTION 'not now' USING errcode = '{code}';")
    error = error_of(postgres, rows(id=[1], words=["a"]))
    assert isinstance(error, TransientError)
    assert "timeout_s" not in str(error), "no deadline of ours has ended it"


def test_a_right_that_a_trigger_lacks_is_a_setting(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words text)")
    trigger(postgres, "PERFORM * FROM nowhere;")
    assert isinstance(error_of(postgres, rows(id=[1], words=["a"])), ConfigurationError)


# What takes too long -----------------------------------------------------------------------------------------------


@both_ways
def test_a_statement_beyond_its_time_says_which_setting_that_is(
    postgres: PostgresDatabase, settings: dict[str, str]
) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words text)")
    trigger(postgres, "PERFORM pg_sleep(20);")
    error = error_of(postgres, rows(id=[1], words=["a"]), timeout_s=2, **settings)
    assert isinstance(error, TransientError)
    assert "timeout_s=2 s" in error.what
    assert "raise timeout_s of sink postgres-t" in error.remedy


# Locks of other pipelines ------------------------------------------------------------------------------------------

OTHER = PipelineId("other", 2)


def test_a_lock_that_another_pipeline_holds_names_it_and_its_commands(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, n bigint)")
    one = rows(id=[1], n=[1])
    sink, committer = checked(postgres, one.schema, **MERGED)
    held = prepared(sink, branch(5, pipeline=OTHER), one)
    with pytest.raises(TransientError) as caught:
        prepared(sink, branch(), one)
    assert "Pipeline other#2 has prepared epoch 5 of sink postgres-t" in caught.value.remedy
    assert "`tpc status" in caught.value.remedy
    assert "`tpc recover" in caught.value.remedy
    assert "Do not COMMIT or ROLLBACK PREPARED" in caught.value.remedy
    assert "of another program" not in caught.value.remedy
    assert [outcome.verdict for outcome in committer.commit([held])] == [Verdict.COMMITTED]
    committed(sink, branch(), one)


def test_own_tables_that_cannot_be_made_name_the_pipelines_that_may_hold_them_up(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, words varchar(2))")
    one = rows(id=[1], words=["a"])
    sink, committer = checked(postgres, one.schema, **MERGED)
    held = prepared(sink, branch(5, pipeline=OTHER), one)
    with postgres.connect() as blocking, blocking.transaction():
        blocking.execute("SELECT pg_advisory_xact_lock(%s)", [own_tables.ONE_AT_A_TIME])
        postgres.execute("DROP TABLE tpc_owners")
        with pytest.raises(ConfigurationError) as caught:
            checked(postgres, one.schema, **MERGED)
    assert "Pipeline other#2" in caught.value.remedy
    committer.abort([held])


@pytest.mark.parametrize(
    ("gids", "own", "wanted", "unwanted"),
    [
        ([gid_of(branch(), 7)], branch().pipeline, [], ["PREPARED"]),
        (["forgotten"], None, ["'forgotten'", "COMMIT PREPARED or ROLLBACK PREPARED it"], ["Pipeline"]),
        ([gid_of(branch(3), 7)], None, ["Pipeline job#1", "epoch 3", "Do not COMMIT"], ["another program"]),
        ([gid_of(branch(3, pipeline=OTHER), 7), "x"], branch().pipeline, ["other#2", "'x' is of"], ["job#1"]),
        (["tpc~half~1~a"], None, ["'tpc~half~1~a' is of another program"], ["Pipeline"]),
    ],
    ids=["own", "stranger", "a pipeline", "both", "no handle"],
)
def test_who_ends_a_prepared_transaction(
    gids: list[str], own: PipelineId | None, wanted: list[str], unwanted: list[str]
) -> None:
    remedy = remedy_for_holders(gids, own)
    assert [text for text in wanted if text not in remedy] == []
    assert [text for text in unwanted if text in remedy] == []
