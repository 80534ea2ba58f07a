"""The kit of sources on the example of a SQLite table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlite_source import SqliteSource

from tpc.testing import SourceConformance


class TestSqliteSource(SourceConformance):
    """A database for each test."""

    timeout_s = 3.0
    has_no_secrets = "a local file has no password"
    has_one_writer = "SQLite lets in one writer at a time"
    has_no_decode = "an event is the text of its row"

    @pytest.fixture(autouse=True)
    def database(self, tmp_path: Path) -> None:
        """With an empty table."""
        self.path = tmp_path / "numbers.db"
        self.recreate()

    def make_source(self) -> SqliteSource:
        """A lock is waited for no longer than `timeout_s` below."""
        return SqliteSource(self.path, "numbers", timeout_s=0.5)

    def feed(self, numbers: Sequence[int]) -> None:
        """A row for each number."""
        self._do(*(f"INSERT INTO numbers (body) VALUES ('{number}')" for number in numbers))

    def lose(self) -> None:
        """SQLite goes on to count after the ids that were there."""
        self._do("DELETE FROM numbers")

    def recreate(self) -> None:
        """A new file counts from 1 again."""
        self.path.unlink(missing_ok=True)
        self._do("CREATE TABLE numbers (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)")

    @contextmanager
    def outage(self) -> Iterator[None]:
        """A lock that stops every reader."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as locks:
            locks.execute("BEGIN EXCLUSIVE")
            yield

    def _do(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)
