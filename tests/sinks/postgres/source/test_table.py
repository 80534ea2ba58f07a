"""What a table cannot be read as a stream for is refused before the first batch, with a remedy that fixes it."""

from __future__ import annotations

import logging
from datetime import datetime, timezone

import pytest

import tpc
from tests.sinks.postgres.source.tables import add, make_table
from tests.support.postgres_database import PostgresDatabase
from tpc.errors import ConfigurationError
from tpc.sinks.postgres.source.server import once
from tpc.sinks.postgres.source.table import ReadTable, checked_table
from tpc.sources import PostgresSource, Since

WHOLE = "id bigint, xid xid8 NOT NULL DEFAULT pg_current_xact_id()"


def looked_at(postgres: PostgresDatabase, table: str = "orders", **wanted: list[str]) -> ReadTable:
    return once(postgres.dsn, 20.0, lambda it: checked_table(it, table, None, "xid", wanted.get("columns")))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("CREATE VIEW orders AS SELECT 1 AS id", "no ordinary, logged table"),
        ("CREATE UNLOGGED TABLE orders (id bigint)", "no ordinary, logged table"),
        ("CREATE TABLE orders (id bigint)", "has no column 'xid'"),
        ("CREATE TABLE orders (xid bigint NOT NULL DEFAULT 1)", "is bigint NOT NULL DEFAULT 1"),
        ("CREATE TABLE orders (xid xid8 DEFAULT pg_current_xact_id())", r"is xid8 DEFAULT pg_current_xact_id\(\)"),
        ("CREATE TABLE orders (xid xid8 NOT NULL)", "is xid8 NOT NULL DEFAULT nothing"),
        ("CREATE TABLE orders (xid xid8 NOT NULL DEFAULT pg_current_xact_id())", "has no index"),
        (f"CREATE TABLE orders ({WHOLE}) PARTITION BY LIST (id); CREATE INDEX ON orders (xid)", "is partitioned"),
        (
            f"CREATE TABLE orders ({WHOLE}); CREATE INDEX ON orders (xid); CREATE TABLE b () INHERITS (orders)",
            "a family",
        ),
        (f"CREATE TABLE a ({WHOLE}); CREATE TABLE orders () INHERITS (a); CREATE INDEX ON orders (xid)", "a family"),
    ],
)
def test_a_table_that_does_not_tell_each_row_s_transaction_is_refused(
    made: str, told: str, postgres: PostgresDatabase
) -> None:
    postgres.execute(made)
    with pytest.raises(ConfigurationError, match=told) as raised:
        looked_at(postgres)
    assert raised.value.remedy


def test_the_column_is_added_to_a_table_with_rows_without_rewriting_it(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE orders AS SELECT generate_series(1, 3) AS id")
    file = postgres.execute("SELECT pg_relation_filenode('orders')")
    with pytest.raises(ConfigurationError, match="has no column 'xid'") as raised:
        looked_at(postgres)
    postgres.execute(raised.value.remedy.split(",")[0])
    postgres.execute("CREATE INDEX ON orders (xid)")
    assert postgres.execute("SELECT pg_relation_filenode('orders')") == file
    assert postgres.execute("SELECT count(DISTINCT xid) FROM orders") == [(1,)], "all come in one epoch"
    assert looked_at(postgres).table == "orders"


def test_an_index_on_a_part_of_the_rows_or_on_another_column_first_is_none(postgres: PostgresDatabase) -> None:
    postgres.execute("CREATE TABLE orders (id bigint, xid xid8 NOT NULL DEFAULT pg_current_xact_id())")
    postgres.execute("CREATE INDEX ON orders (id, xid)")
    postgres.execute("CREATE INDEX ON orders (xid) WHERE id > 0")
    with pytest.raises(ConfigurationError, match="has no index"):
        looked_at(postgres)


def test_rows_that_a_dump_has_brought_from_another_server_are_refused(postgres: PostgresDatabase) -> None:
    make_table(postgres)
    postgres.execute("INSERT INTO orders VALUES (1, '1000000000000')")
    with pytest.raises(ConfigurationError, match="they come from another server, by a dump") as raised:
        looked_at(postgres)
    postgres.execute(raised.value.remedy.split(",")[0])
    assert looked_at(postgres).table == "orders"


def test_who_may_change_its_rows_is_told(postgres: PostgresDatabase, caplog: pytest.LogCaptureFixture) -> None:
    make_table(postgres)
    looked_at(postgres)
    assert "orders" not in caplog.text
    postgres.execute("GRANT UPDATE, SELECT ON orders TO PUBLIC")
    with caplog.at_level(logging.WARNING):
        looked_at(postgres)
    assert "PUBLIC (UPDATE)" in caplog.text


def test_each_column_comes_as_a_type_that_holds_all_its_values(postgres: PostgresDatabase) -> None:
    make_table(postgres)
    for column in ("a numeric(12,2)", "b numeric", "c timestamptz", "d timestamp", "e uuid", "f varchar(9)", "g bytea"):
        postgres.execute(f"ALTER TABLE orders ADD COLUMN {column}")
    types = {column.name: column.spark for column in looked_at(postgres).columns}
    assert types == {
        "id": "bigint",
        "xid": "bigint",
        "a": "decimal(12,2)",
        "b": "string",
        "c": "timestamp",
        "d": "timestamp_ntz",
        "e": "string",
        "f": "string",
        "g": "binary",
    }


def test_a_column_that_no_type_holds_is_refused_until_it_is_left_out(postgres: PostgresDatabase) -> None:
    make_table(postgres)
    postgres.execute("ALTER TABLE orders ADD COLUMN span interval")
    add(postgres, 1)
    with pytest.raises(ConfigurationError, match="column 'span' is interval"):
        looked_at(postgres)
    assert [column.name for column in looked_at(postgres, columns=["id"]).columns] == ["id"]


def test_a_dsn_with_a_password_is_refused_and_not_shown() -> None:
    for dsn in ("host=x password=hunter2", "postgresql://tpc:hunter2@x/y"):
        with pytest.raises(ConfigurationError, match="carries a password") as raised:
            PostgresSource("orders", dsn=dsn)
        assert "hunter2" not in str(raised.value)
    assert repr(PostgresSource("s.orders", dsn=tpc.env("PG_DSN"))) == "PostgresSource('s.orders')"


def test_a_beginning_that_is_unknown_or_has_no_time_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="start='yesterday'"):
        PostgresSource("orders", dsn="host=x", start="yesterday")
    with pytest.raises(ConfigurationError, match="no time zone"):
        PostgresSource("orders", dsn="host=x", start=Since("at", datetime(2026, 1, 1)))
    assert PostgresSource("orders", dsn="host=x", start=Since("at", datetime(2026, 1, 1, tzinfo=timezone.utc)))
