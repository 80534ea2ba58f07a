"""PostgreSQL: every value into every column is read back equal, or refused; also when the column was altered."""

from __future__ import annotations

import itertools
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from pyarrow import types

from tests.sinks.postgres.branches import JOB, branch, checked, context, rows, verdicts
from tests.sinks.values.columns import TYPES, array, arrays, float_bits, raw_values
from tests.sinks.values.judging import judged_alike
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import ConfigurationError, DataError, TransientError
from tpc.sink import Verdict
from tpc.sinks.postgres.sink import PostgresSink

SQL_TYPES = (
    *("boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric", "numeric(38,10)"),
    *("numeric(10,0)", "numeric(10,-2)", "text", "varchar", "varchar(3)", "char(5)", "name", '"char"', "bytea", "date"),
    *("time", "time(3)", "timetz", "timestamp", "timestamp(3)", "timestamptz", "timestamptz(0)", "interval"),
    *("interval(0)", "json", "uuid", "money", "oid", "inet", "varchar(3)[]", "integer[]"),
)
RAW = {
    "date": "(v - date '1970-01-01')::bigint",
    "time": "(extract(epoch from v) * 1000000)::bigint",
    "timestamp": "(extract(epoch from v) * 1000000)::numeric",
    "timestamptz": "(extract(epoch from v) * 1000000)::numeric",
}
"""What is asked of a column, so that no reader's calendar ends before the server's."""
_PER_US = {"s": 1_000_000, "ms": 1000, "us": 1}


def write(sink: PostgresSink, batch: pa.RecordBatch, epoch: int = 1) -> None:
    """Check, write and commit, as a pipeline does."""
    committer = sink.committer(JOB)
    committer.check(context(batch.schema))
    written(sink, batch, epoch)


def written(sink: PostgresSink, batch: pa.RecordBatch, epoch: int) -> None:
    writer = sink.writer(branch(epoch), batch.schema, {})
    try:
        with judged_alike(sink, branch(epoch), batch, {}):
            writer.write(batch)
            committable = writer.prepare()
    except BaseException:
        writer.abort()
        raise
    assert committable is not None
    assert verdicts(sink.committer(JOB).commit([committable])) == [Verdict.COMMITTED]


def wanted(kind: pa.DataType, raw: Any) -> Any:
    """The raw value as a reader of the table has it: the table of docs/reference/sink-values.md."""
    if raw is None:
        return None
    if types.is_dictionary(kind):
        return wanted(kind.value_type, raw)
    if types.is_date64(kind):
        return raw // 86_400_000
    if types.is_time(kind) or types.is_timestamp(kind):
        return raw * _PER_US[kind.unit]
    return raw


def found(sql: str, value: Any) -> Any:
    if value is None:
        return None
    if sql in ("real", "double precision"):
        return float_bits(float(np.float32(value)) if sql == "real" else value)  # of 32 bits: its shortest digits
    if sql.startswith("char("):
        return value.rstrip(" ").encode()
    return value.encode() if isinstance(value, str) else bytes(value) if isinstance(value, memoryview) else value


def numbered(column: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(len(column))), column], names=["id", "v"])


def outcome(postgres: PostgresDatabase, sql: str, column: pa.Array, epoch: int) -> str:
    """What happens to a column in a table of its own; it must be one of three."""
    postgres.execute("DROP TABLE IF EXISTS t")
    postgres.execute(f"CREATE TABLE t (id bigint PRIMARY KEY, v {sql})")
    sink = PostgresSink("t", dsn=postgres.dsn, timeout_s=10)
    try:
        write(sink, numbered(column), epoch)
    except ConfigurationError as error:
        assert "'v'" in str(error)
        assert postgres.execute("SELECT * FROM t") == []
        return "type refused"
    except DataError as error:
        assert error.sink == sink.name
        assert error.column == "v"
        assert "id=" in str(error.key)
        assert postgres.execute("SELECT * FROM t") == []
        return "value refused"
    asked = next((words for start, words in RAW.items() if sql.partition("(")[0] == start), "v")
    asked = "v::text" if sql in ("interval", "json", "uuid", "inet") else asked
    there = [value for (value,) in postgres.execute(f"SELECT {asked} FROM t ORDER BY id")]
    if sql in ("interval", "uuid", "inet"):
        return "arrived"  # PostgreSQL's own text of the value; see the seen cases
    given_raws = [wanted(column.type, raw) for raw in raw_values(column)]
    if sql in ("real", "double precision"):
        given_raws = [float_bits(float(raw)) if isinstance(raw, int) else raw for raw in given_raws]
    assert [found(sql, value) for value in there] == given_raws, (sql, column.type)
    return "arrived"


def test_every_value_in_every_column_is_read_back_equal_or_refused(postgres: PostgresDatabase) -> None:
    epochs, outcomes, taken = itertools.count(1), Counter[str](), set[tuple[str, str]]()

    @settings(max_examples=150)
    @given(some.sampled_from(SQL_TYPES), some.integers(0, len(TYPES) - 1).flatmap(lambda n: arrays(TYPES[n])))
    def hold(sql: str, column: pa.Array) -> None:
        came = outcome(postgres, sql, column, next(epochs))
        outcomes[came] += 1
        if came == "arrived":
            taken.add((sql, str(column.type)))

    hold()
    assert min(outcomes[name] for name in ("arrived", "type refused")) > 0, outcomes
    assert taken


FITS = (
    *(("bigint", pa.int64()), ("numeric", pa.uint64()), ("numeric(38,10)", pa.decimal128(38, 10))),
    *(("double precision", pa.float32()), ("double precision", pa.float64()), ("real", pa.float32())),
    *(("text", pa.string()), ("varchar(3)", pa.string()), ("char(5)", pa.string()), ("bytea", pa.binary())),
    *(("date", pa.date32()), ("date", pa.date64()), ("time", pa.time64("us")), ("timestamp", pa.timestamp("us"))),
    *(("timestamptz", pa.timestamp("us", "Europe/Amsterdam")), ("timestamp", pa.timestamp("s"))),
)


@pytest.mark.parametrize(("sql", "kind"), FITS, ids=str)
def test_types_that_fit_keep_each_value_or_refuse_it(postgres: PostgresDatabase, sql: str, kind: pa.DataType) -> None:
    epochs, outcomes = itertools.count(1), Counter[str]()

    @settings(max_examples=15)
    @given(arrays(kind))
    def hold(column: pa.Array) -> None:
        outcomes[outcome(postgres, sql, column, next(epochs))] += 1

    hold()
    assert outcomes["arrived"] > 0
    assert outcomes["type refused"] == 0


ARRIVES, REFUSED, NO_SUCH_TYPE = "arrived", "value refused", "type refused"
SEEN: dict[str, tuple[str, pa.DataType, Any, str]] = {
    "varchar drops blanks": ("varchar(3)", pa.string(), b"abc   ", REFUSED),
    "varchar as long as that": ("varchar(3)", pa.string(), "äöü".encode(), ARRIVES),
    "char ignores blanks": ("char(5)", pa.string(), b"ab ", REFUSED),
    "char pads": ("char(5)", pa.string(), b"ab", ARRIVES),
    "name cuts at 63 bytes": ("name", pa.string(), b"x" * 80, NO_SUCH_TYPE),
    "one byte": ('"char"', pa.string(), b"hello", NO_SUCH_TYPE),
    "an interval that rounds by its declaration": ("interval(0)", pa.string(), b"1.6 s", NO_SUCH_TYPE),
    "an interval that rounds": ("interval", pa.string(), b"1.0000004 s", REFUSED),
    "an interval of a fraction of a microsecond": ("interval", pa.string(), b"0.5 microseconds", REFUSED),
    "an interval of a fraction of a month": ("interval", pa.string(), b"0.0000001 mon", REFUSED),
    "an interval in microseconds": ("interval", pa.string(), b"1 day 00:00:01.123456", ARRIVES),
    "a float of 32 bits in 64": ("double precision", pa.float32(), 0.1, ARRIVES),
    "a float of 16 bits in 64": ("double precision", pa.float16(), 0.1, ARRIVES),
    "a float of 64 bits in 32": ("real", pa.float64(), 0.1, NO_SUCH_TYPE),
    "minus zero": ("double precision", pa.float64(), -0.0, ARRIVES),
    "NaN": ("double precision", pa.float64(), float("nan"), ARRIVES),
    "a fraction in whole numbers": ("bigint", pa.float64(), 19.99, NO_SUCH_TYPE),
    "a decimal beyond the scale": ("numeric(10,0)", pa.decimal128(5, 2), 255, NO_SUCH_TYPE),
    "a timestamp in a date": ("date", pa.timestamp("us"), 1, NO_SUCH_TYPE),
    "a timestamp in a time": ("time", pa.timestamp("us"), 1, NO_SUCH_TYPE),
    "a date with a time of day": ("date", pa.date64(), 1, REFUSED),
    "text that is no UTF-8": ("text", pa.string(), b"a\xff", REFUSED),
    "text with a NUL": ("text", pa.string(), b"a\x00b", REFUSED),
    "an array of varchar": ("varchar(3)[]", pa.string(), b"{abc}", NO_SUCH_TYPE),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_was_seen_to_change(postgres: PostgresDatabase, name: str) -> None:
    sql, kind, raw, expected = SEEN[name]
    assert outcome(postgres, sql, array(kind, [None, raw]), 1) == expected


ALTERED = (
    *(
        ("numeric", "numeric(10,0)", Decimal("2.55"), pa.decimal128(10, 2)),
        ("timestamp", "date", 1, pa.timestamp("us")),
    ),
    *(("double precision", "real", 0.1, pa.float64()), ("timestamptz", "timestamptz(0)", 1, pa.timestamp("us", "UTC"))),
    *(("text", "name", "x" * 80, pa.string()), ("numeric", "bigint", Decimal("2.55"), pa.decimal128(10, 2))),
)


@pytest.mark.parametrize(("before", "after", "value", "kind"), ALTERED)
@pytest.mark.parametrize("merge", [None, "max"])
def test_a_column_that_is_altered_between_epochs_rounds_nothing(
    postgres: PostgresDatabase, before: str, after: str, value: Any, kind: pa.DataType, merge: str | None
) -> None:
    postgres.execute(f"CREATE TABLE t (id bigint PRIMARY KEY, v {before})")
    column = pa.array([value], pa.int64()).cast(kind) if types.is_timestamp(kind) else pa.array([value], kind)
    sink, _ = checked(postgres, numbered(column).schema, **({"key": "id", "merge": merge} if merge else {}))
    postgres.execute(f"ALTER TABLE t ALTER v TYPE {after} USING NULL")
    with pytest.raises(ConfigurationError, match=r"column 'v' has become .* is committed") as raised:
        written(sink, numbered(column), 2)
    assert (raised.value.epoch, raised.value.sink) == (2, "postgres-t")
    assert postgres.execute("SELECT * FROM t") == []
    assert postgres.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()") == []


def test_a_column_that_is_altered_after_a_branch_has_begun_rounds_nothing(postgres: PostgresDatabase) -> None:
    """Between the first look and the first COPY nothing holds the table yet; the look before prepare notices it."""
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, v numeric)")
    batch = rows(id=[1], v=pa.array([Decimal("2.55")], pa.decimal128(10, 2)))
    sink, _ = checked(postgres, batch.schema)
    writer: Any = sink.writer(branch(), batch.schema, {})
    writer._begun()
    postgres.execute("ALTER TABLE t ALTER v TYPE numeric(10,0)")
    writer.write(batch)
    with pytest.raises(ConfigurationError, match="'v' has become numeric"):
        writer.prepare()
    assert postgres.execute("SELECT * FROM t") == []


def test_a_wider_column_is_taken_by_an_append_and_by_a_merge_after_a_restart(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, v integer)")
    batch = rows(id=[1], v=pa.array([5], pa.int32()))
    sink, _ = checked(postgres, batch.schema)
    merging, _ = checked(postgres, batch.schema, key="id", merge="max")
    postgres.execute("ALTER TABLE t ALTER v TYPE bigint")
    written(sink, batch, 1)
    with pytest.raises(TransientError, match="columns v were altered"):
        written(merging, batch, 2)
    write(merging, batch, 3)
    assert postgres.execute("SELECT * FROM t") == [(1, 5)]


def test_while_a_branch_is_written_a_column_cannot_be_altered(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id bigint PRIMARY KEY, v numeric)")
    batch = rows(id=[1], v=pa.array([Decimal("2.55")], pa.decimal128(10, 2)))
    sink, _ = checked(postgres, batch.schema)
    writer = sink.writer(branch(), batch.schema, {})
    writer.write(batch)
    with psycopg.connect(postgres.dsn) as other:
        other.execute("SET lock_timeout = 100")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("ALTER TABLE t ALTER v TYPE numeric(10,0)")
    committable = writer.prepare()
    assert committable is not None
    sink.committer(JOB).commit([committable])
    assert postgres.execute("SELECT v FROM t") == [(Decimal("2.55"),)]
