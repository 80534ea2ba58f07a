"""A table as a source reads it, and a reader of it without Spark: what Spark would ask, asked by a test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.types import LongType, StructType

from tests.support.postgres_database import PostgresDatabase
from tpc.sinks.postgres.source.spark_source import TableDataSource, TableStreamReader

TABLE = "CREATE TABLE orders (id bigint, xid xid8 NOT NULL DEFAULT pg_current_xact_id()); CREATE INDEX ON orders (xid)"


def make_table(postgres: PostgresDatabase) -> PostgresDatabase:
    for statement in TABLE.split("; "):
        postgres.execute(statement)
    return postgres


def add(postgres: PostgresDatabase, *ids: int) -> None:
    """Rows, in a transaction of their own."""
    postgres.execute("INSERT INTO orders SELECT unnest(%s::bigint[])", [list(ids)])


def dsn_file(postgres: PostgresDatabase, place: Path) -> str:
    path = place / "dsn"
    path.write_text(postgres.dsn)
    return str(path)


def reader(postgres: PostgresDatabase, **options: str) -> TableStreamReader:
    """As Spark has one in each life."""
    name = f"{postgres.name}.public.orders"
    given = {
        "dsn": postgres.dsn,
        "table": json.dumps(["public", "orders", name]),
        "columns": json.dumps([["id", "bigint", "bigint"]]),
        "xid": "xid",
        "start": json.dumps({"at": "beginning"}),
        "rowsPerEpoch": "",
        "partitions": "8",
        "timeout": "20",
        "tellHeldAfter": "60",
        "upgradedFrom": "",
        **options,
    }
    return TableDataSource(given).streamReader(StructType().add("id", LongType()))


def rows_between(one: TableStreamReader, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[int]:
    """The ids of a batch, in their order."""
    batches = [batch for part in one.partitions(start, end) for batch in one.read(part)]
    return sorted(value for batch in batches for value in batch.column("id").to_pylist())


class Stream:
    """Batch after batch, as Spark plans them."""

    def __init__(self, one: TableStreamReader) -> None:
        self.reader = one
        self.planned: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
        self.at: Mapping[str, Any] = one.initialOffset()

    def batch(self) -> list[int]:
        """The ids of the next batch; none where no new one would be planned."""
        end = self.reader.latestOffset()
        if end == self.at:
            return []
        start, self.at = self.at, end
        self.planned.append((start, end))
        return rows_between(self.reader, start, end)

    def again_after_a_restart(self, other: TableStreamReader) -> None:
        """Another life: what Spark does with the last offset that it knows."""
        self.reader = other
        other.partitions(self.at, self.at)
