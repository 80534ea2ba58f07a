"""Every value that the check lets pass arrives unchanged, whatever characters it holds."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from tests.sinks.postgres.branches import JOB, branch, checked, committed, context, rows
from tests.support.postgres_database import PostgresDatabase
from tpc.sinks.postgres.arrow_csv import csv_of, row_of_line
from tpc.sinks.postgres.sink import PostgresSink

UTC = dt.timezone.utc
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "words": pa.string(),
        "bytes": pa.binary(),
        "amount": pa.decimal128(20, 4),
        "ratio": pa.float64(),
        "single": pa.float32(),
        "at": pa.timestamp("us", tz="America/New_York"),
        "local": pa.timestamp("us"),
        "day": pa.date32(),
        "yes": pa.bool_(),
        "clock": pa.time64("us"),
    }
)
TABLE = """
    CREATE TABLE t (id bigint PRIMARY KEY, words text, bytes bytea, amount numeric(20, 4), ratio double precision,
    single real, at timestamptz, local timestamp, day date, yes boolean, clock time)
"""
# A real is written with as few digits as tell it from other reals; as a double all its digits are seen.
SENT_BACK = f"SELECT {', '.join(SCHEMA.names)} FROM t ORDER BY id".replace("single", "single::float8")
AWKWARD = st.sampled_from(["", "\\.", "\\N", "NULL", '"', '""', "\n", "\r\n", "a\n\\.\nb", "\t", "\\", ",", "é𝄞", " "])
TEXT = st.one_of(AWKWARD, st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "words": TEXT,
    "bytes": st.binary(max_size=20),
    "amount": st.decimals(min_value=-(10**15), max_value=10**15, places=4),
    "ratio": st.floats(),
    "single": st.floats(width=32),
    "at": st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(9998, 1, 1), timezones=st.just(UTC)),
    "local": st.datetimes(),
    "day": st.dates(),
    "yes": st.booleans(),
    "clock": st.times(),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, values in FIELDS.items()}), max_size=20)


def same(sent: Any, got: Any) -> bool:
    if isinstance(sent, float) and isinstance(got, float):
        return (math.isnan(sent) and math.isnan(got)) or (
            sent == got and math.copysign(1, sent) == math.copysign(1, got)
        )
    if isinstance(sent, dt.datetime) and sent.tzinfo is not None:
        got = got.astimezone(UTC)  # Python calls an hour that comes twice unequal to the same moment in another zone
    return bool(sent == got)


def test_values_of_every_type_arrive_unchanged(postgres: PostgresDatabase) -> None:
    postgres.execute(TABLE)
    postgres.execute(f"ALTER DATABASE {postgres.name} SET TimeZone = 'America/New_York'")  # not what the CSV is in
    sink, _ = checked(postgres, SCHEMA)
    epochs = iter(range(1, 10_000))

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(ROWS)
    def arrive(generated: list[dict[str, Any]]) -> None:
        sent = [{"id": number, **row} for number, row in enumerate(generated)]
        if sent:
            batch = pa.RecordBatch.from_pylist(sent, schema=SCHEMA)
            committed(sink, branch(next(epochs)), batch)
        got = postgres.execute(SENT_BACK)
        postgres.execute("TRUNCATE t")
        assert len(got) == len(sent)
        for row, there in zip(sent, got, strict=True):
            for name, value in zip(SCHEMA.names, there, strict=True):
                assert same(row[name], bytes(value) if isinstance(value, memoryview) else value), (
                    name,
                    row[name],
                    value,
                )

    arrive()


OTHER_SETTINGS = {
    "client_encoding": "latin1",
    "IntervalStyle": "sql_standard",
    "DateStyle": "SQL, DMY",
    "TimeZone": "America/New_York",
    "bytea_output": "escape",
    "extra_float_digits": "-15",
}
"""Each makes another value, or another text, of what is written or compared."""


@pytest.mark.parametrize("settings_of", ["dsn", "options", "database"])
@pytest.mark.parametrize("merge", [None, "max"])
def test_no_setting_of_a_session_changes_a_value(
    merge: str | None, settings_of: str, postgres: PostgresDatabase
) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, words text, gap interval, at timestamptz, bytes bytea)")
    dsn = postgres.dsn
    if settings_of == "database":
        for name, value in OTHER_SETTINGS.items():
            postgres.execute(f"ALTER DATABASE {postgres.name} SET {name} = '{value}'")
    elif settings_of == "options":
        told = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in OTHER_SETTINGS.items())
        dsn = make_conninfo(dsn, options=told)
    else:
        dsn = make_conninfo(dsn, client_encoding="latin1")
    at = dt.datetime(2026, 2, 1, 12, tzinfo=UTC)
    batch = rows(id=[1], words=["hé €"], gap=["-1 2:03:04"], at=[at], bytes=[b"\\\xff"])
    sink, _ = checked(postgres, batch.schema, dsn=dsn, **({} if merge is None else {"key": "id", "merge": merge}))
    committed(sink, branch(), batch)
    if merge is not None:
        committed(sink, branch(2), batch)
    shown = """SELECT encode(convert_to(words, 'UTF8'), 'hex'),
        gap = make_interval(days => -1, hours => 2, mins => 3, secs => 4),
        extract(epoch FROM at)::bigint, encode(bytes, 'hex') FROM t"""
    assert postgres.execute(shown) == [("hé €".encode().hex(), True, int(at.timestamp()), "5cff")]


def test_null_and_the_empty_string_stay_apart(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (id int PRIMARY KEY, words text)")
    batch = rows(id=[1, 2, 3], words=["", None, "NULL"])
    sink, _ = checked(postgres, batch.schema)
    committed(sink, branch(), batch)
    assert postgres.execute("SELECT id, words, words IS NULL FROM t ORDER BY id") == [
        (1, "", False),
        (2, None, True),
        (3, "NULL", False),
    ]


def test_a_single_column_of_nulls_keeps_its_rows(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (words text)")
    batch = rows(words=pa.array([None, "", None], pa.string()))
    sink, _ = checked(postgres, batch.schema)
    committed(sink, branch(), batch)
    assert postgres.execute("SELECT count(*), count(words) FROM t") == [(3, 1)]


def test_names_that_need_quotes_are_quoted(postgres: PostgresDatabase) -> None:
    postgres.execute('CREATE SCHEMA "My ""S"""')
    postgres.execute('CREATE TABLE "My ""S"""."T;%s" ("select" int PRIMARY KEY, "a ""b" text)')
    batch = rows(**{"select": [1], 'a "b': ["x"]})
    sink = PostgresSink("T;%s", schema='My "S"', dsn=postgres.dsn, key="select", merge="max", name="quoted")
    sink.committer(JOB).check(context(batch.schema))
    committed(sink, branch(sink="quoted"), batch)
    committed(sink, branch(2, sink="quoted"), rows(**{"select": [1], 'a "b': ["y"]}))
    assert postgres.execute('SELECT * FROM "My ""S"""."T;%s"') == [(1, "y")]


def test_strings_go_into_json_uuid_and_enum(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TYPE mood AS ENUM ('good', 'bad')")
    postgres.execute("CREATE TABLE t (doc jsonb, who uuid, how mood)")
    who = "6f1d3c1e-7d6a-4b8e-9a61-0c7f4d0a8d11"
    batch = rows(doc=['{"a": [1, "x"]}'], who=[who], how=["bad"])
    sink, _ = checked(postgres, batch.schema)
    committed(sink, branch(), batch)
    assert postgres.execute("SELECT doc -> 'a' ->> 1, who::text, how::text FROM t") == [("x", who, "bad")]


def test_integers_widths_and_decimals_keep_their_value(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE t (a smallint, b numeric, c bigint, d numeric(38, 10))")
    batch = rows(
        a=pa.array([-(2**15)], pa.int64()),
        b=pa.array([2**64 - 1], pa.uint64()),
        c=pa.array([Decimal(7)], pa.decimal128(38, 0)),
        d=pa.array([Decimal("-1.0000000001")], pa.decimal128(38, 10)),
    )
    sink, _ = checked(postgres, batch.schema)
    committed(sink, branch(), batch)
    assert postgres.execute("SELECT * FROM t") == [(-(2**15), Decimal(2**64 - 1), 7, Decimal("-1.0000000001"))]


@pytest.mark.parametrize("breaks", ["\n", "\r", "\r\n", "\n\n"])
def test_a_line_of_the_csv_leads_back_to_its_row(breaks: str) -> None:
    """COPY's own count is held against this in test_postgres_refusals."""
    batch = rows(a=["x", f"y{breaks}z", "w"], b=[f"{breaks}", "q", f"{breaks}"])
    assert csv_of(batch).endswith(b'"\n')
    lines_of_first = 1 + breaks.count("\r")
    assert row_of_line(batch, lines_of_first) == 0
    assert row_of_line(batch, lines_of_first + 1 + breaks.count("\n")) == 1
