"""A source of one's own: the rows of a SQLite table that others append to, in the order of their ids.

    service.read(SqliteSource("/data/orders.db", "orders"))

The table has `id INTEGER PRIMARY KEY AUTOINCREMENT` and `body TEXT`, and whoever writes leaves the id out. SQLite lets
one writer in at a time, so ids come into sight in their order and without gaps: a rollback gives its ids back (INSERT
OR IGNORE may not). Where writers commit side by side, as in other databases, an id alone is no position.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tpc.errors import ConfigurationError, StateLostError, TransientError
from tpc.source import Origin, Part, Source, SourceReader

BOUNDS = """
SELECT (SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE),
       (SELECT seq FROM sqlite_sequence WHERE name = ? COLLATE NOCASE),
       (SELECT min(id) FROM {table} WHERE id > ?)
"""


class SqliteSource(Source):
    """Each row's `body` is an event. A position is the id of the last row that was read."""

    kind = "sqlite"

    def __init__(self, path: str | Path, table: str, *, name: str | None = None, timeout_s: float = 10.0) -> None:
        super().__init__(name or table)
        self.path = Path(path).absolute()
        self.table = table
        self.timeout_s = timeout_s
        self.place = f"{self.path} {table}"

    def reader(self) -> SourceReader:
        """Reads from the first row that is there, or from where `seek` says."""
        return SqliteReader(self)


class SqliteReader(SourceReader):
    """One connection, which only reads."""

    def __init__(self, source: SqliteSource) -> None:
        self._source = source
        self._connection: sqlite3.Connection | None = None
        self._position = self._polled_to = 0
        self._polled: list[tuple[int, str]] = []
        self._last: list[tuple[int, str]] = []
        self._is_exhausted = False

    def seek(self, position: str | None) -> None:
        """The next row must be there, unless none has come since."""
        table, after = self._source.table, int(position or 0)
        # In one statement, and so of one moment: rows may be appended meanwhile.
        ((made, newest, first),) = self._ask(BOUNDS, table, table, after)
        if "AUTOINCREMENT" not in str(made).upper():
            raise ConfigurationError(
                f"{self._source.place}: the table has no id INTEGER PRIMARY KEY AUTOINCREMENT",
                remedy="create it with such an id: without it SQLite gives the id of a deleted row again.",
            )
        following = first or (newest or 0) + 1
        if position is None:
            after = following - 1
        elif following != after + 1:
            raise self._lost(after, following)
        self._position = self._polled_to = after
        self._polled, self._is_exhausted = [], False
        self._last = self._ask("SELECT id, body FROM {table} WHERE id = ?", after)

    def identities(self) -> Mapping[str, str]:
        """The last row that was read: in another table of this name another row has its id."""
        return {f"row {id}": hashlib.sha256(repr(body).encode()).hexdigest() for id, body in self._last}

    def position(self) -> str:
        """The id of the last row of the last cut."""
        return str(self._position)

    def poll(self, rows: int, timeout_s: float) -> int:
        """SQLite does not announce a new row: look for one until it is there or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not (came := self._take(2**62, rows)) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._is_exhausted = came < rows
        return came

    def cut(self) -> list[Part]:
        """A table is one partition."""
        rows, self._polled, where = self._polled, [], self._source.place
        self._position, self._last = self._polled_to, rows[-1:] or self._last
        bodies = [body for _, body in rows]
        return [Part("", bodies, self._is_exhausted, origin=lambda index: Origin(f"{where}, id {rows[index][0]}"))]

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        """The same rows in the same order, whatever has been appended since."""
        self._take(int(end), -1)
        if self._polled_to != int(end):
            raise self._lost(self._polled_to, int(end))
        return self.cut()

    def is_exhausted(self) -> bool:
        """The last poll found fewer rows than it was asked for."""
        return self._is_exhausted

    def close(self) -> None:
        """The next question opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, upto: int, rows: int) -> int:
        """Take in the rows after those that are polled. None may be missing before the last of them."""
        query = "SELECT id, body FROM {table} WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        new = self._ask(query, self._polled_to, upto, rows)
        if new and new[-1][0] != self._polled_to + len(new):
            raise self._lost(self._polled_to, new[-1][0])
        self._polled += new
        self._polled_to += len(new)
        return len(new)

    def _lost(self, after: int, before: int) -> StateLostError:
        return StateLostError(
            f"{self._source.place}: rows between the ids {after} and {before} are not there",
            remedy="bring back rows that were deleted before they were read; or fill a gap that a writer has left "
            "(by INSERT OR IGNORE, or by an id of its own).",
        )

    def _ask(self, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        table = self._source.table.replace('"', '""')
        with self._errors():
            if self._connection is None:
                place, timeout_s = f"{self._source.path.as_uri()}?mode=ro", self._source.timeout_s
                self._connection = sqlite3.connect(place, uri=True, timeout=timeout_s)
            return self._connection.execute(query.format(table=f'"{table}"'), arguments).fetchall()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "no such" in str(error) or not isinstance(error, sqlite3.OperationalError):
                raise ConfigurationError(f"{self._source.place}: {error}") from error
            raise TransientError(f"{self._source.place} cannot be read: {error}") from error
