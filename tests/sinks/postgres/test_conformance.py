"""The conformance kit on the PostgreSQL sink: appended, and merged by key."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.postgres_database import PostgresDatabase
from tests.support.processes import eventually
from tpc.chaos.proxy import proxied_postgres
from tpc.sink import Sink
from tpc.sinks.postgres.sink import PostgresSink
from tpc.testing import SinkConformance

PASSWORD = "hunter2-of-the-kit"
"""Any will do: the test's server trusts its own machine."""


def quoted(name: str) -> str:
    """A name as it is, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


class PostgresKit(SinkConformance):
    secrets = (PASSWORD,)
    deadline_s = 15.0
    deaths = 6
    many_branches = 40  # the server holds 64 prepared transactions, others' too
    large_branch_rows = 50_000
    cannot_cut_power = "the server is shared by all tests; `make chaos` kills one of its own"
    cannot_add_column = "ALTER TABLE waits for the transactions that are prepared on a table"
    key: ClassVar[str] = "NOT NULL"
    fixed_columns = "tests/sinks/postgres/test_values.py tries every type on tables of its own"
    numbers = itertools.count(1)
    settings: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def database(self, postgres: PostgresDatabase) -> Iterator[None]:
        """The sink reaches the server through a proxy that can be cut; readers do not."""
        postgres.execute(f"CREATE TABLE t ({self.columns})")
        self.postgres = postgres
        with proxied_postgres(postgres.dsn) as (self.proxy, through):
            self.dsn = make_conninfo(through, password=PASSWORD)
            yield

    def make_sink(self, tmp_path: Path, name: str = "a") -> PostgresSink:
        return PostgresSink("t", dsn=self.dsn, name=name, timeout_s=5.0, lock_timeout_s=2.0, **self.settings)

    @property
    def columns(self) -> str:
        return f"id bigint {self.key}, value text, amount double precision"

    def make_sink_on(self, tmp_path: Path, target: str, name: str = "a") -> PostgresSink:
        self.postgres.execute(f"CREATE TABLE IF NOT EXISTS {quoted(target)} ({self.columns})")
        return PostgresSink(target, dsn=self.dsn, name=name, timeout_s=5.0, lock_timeout_s=2.0, **self.settings)

    def make_sink_with_unique_key(self, tmp_path: Path, name: str = "a") -> PostgresSink:
        self.postgres.execute("ALTER TABLE t ADD UNIQUE (id)")
        return self.make_sink(tmp_path, name)

    def visible_rows(self, sink: Sink) -> list[dict[str, Any]]:
        assert isinstance(sink, PostgresSink)
        rows = self.postgres.execute(f"SELECT id, value, amount FROM {quoted(sink.table)}")
        return [{"id": id_, "value": value, "amount": amount} for id_, value, amount in rows]

    def leftovers(self, sink: Sink) -> list[str]:
        # PostgreSQL notices that a client is gone, and ends its transaction, a moment later.
        eventually(lambda: not self.open(), "no transaction is open", timeout_s=10)
        return self.postgres.in_doubt()

    def open(self) -> list[tuple[Any, ...]]:
        """Transactions that were begun and not prepared."""
        return self.postgres.execute(
            "SELECT pid, state FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
        )

    def forget_markers(self, sink: Sink) -> None:
        self.postgres.execute("DELETE FROM tpc_markers")

    def consume(self, sink: Sink) -> None:
        self.postgres.execute("DELETE FROM t")

    def outage(self, sink: Sink) -> AbstractContextManager[None]:
        return self.proxy.cut()

    def foreign_write(self, sink: Sink) -> None:
        self.postgres.execute("INSERT INTO t VALUES (%s, 'of somebody else', 0)", [-next(self.numbers)])

    @contextmanager
    def look_alike(self, sink: Sink, name: str) -> Iterator[None]:
        """A transaction that somebody else has prepared in this database."""
        with self.postgres.connect() as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT txid_current()")
            connection.execute(f"PREPARE TRANSACTION '{name}'".encode())
        try:
            yield
        finally:
            self.postgres.execute(f"ROLLBACK PREPARED '{name}'")

    @contextmanager
    def restore_backup(self, sink: Sink) -> Iterator[None]:
        """The rows of every table as they were; what was prepared since is gone, as in a server that was restored."""
        before = {table: self.postgres.execute(f"SELECT * FROM {table}") for table in self.tables()}
        prepared = self.postgres.in_doubt()
        yield
        for gid in set(self.postgres.in_doubt()) - set(prepared):
            self.postgres.execute(f"ROLLBACK PREPARED '{gid}'")
        for table, rows in before.items():
            self.postgres.execute(f"DELETE FROM {table}")
            for row in rows:
                self.postgres.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row)

    def tables(self) -> list[str]:
        """Of the test's database."""
        return [
            table for (table,) in self.postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname='public'")
        ]

    def bad_batch(self) -> pyarrow.RecordBatch:
        return pyarrow.RecordBatch.from_pylist([{"id": None, "value": "no key", "amount": 1.0}], schema=self.schema)


class TestAppend(PostgresKit):
    pass


class TestUpsert(PostgresKit):
    keyed = "id"
    key = "PRIMARY KEY"
    settings: ClassVar[Mapping[str, Any]] = {"key": "id", "merge": {"value": "keep", "amount": "add"}}

    def merged(self, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
        return {**before, "amount": before["amount"] + after["amount"]}

    def leftovers(self, sink: Sink) -> list[str]:
        staged = self.postgres.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'tpc_staging%'")
        rows = [row for (table,) in staged for row in self.postgres.execute(f"SELECT tpc_handle FROM {table}")]
        return super().leftovers(sink) + [handle for (handle,) in rows]
