"""Readers that take down which rows a table or a directory shows while a run is being disturbed.

Every look that differs from the one before is kept whole: meant for thousands of rows, not for millions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpc.chaos.checkers.files_content import files_of, manifests
from tpc.chaos.checkers.seen import SeenRows, SeenTallies
from tpc.chaos.checkers.service_state import read_store
from tpc.chaos.checkers.watching import ANSWER_TIMEOUT_S, POLL_S, Reader

if TYPE_CHECKING:
    from tpc.support.bounded_connection import BoundedConnection


class PostgresReader(Reader):
    """Runs one statement at each look: one snapshot of PostgreSQL's, whatever commits meanwhile."""

    def __init__(self, dsn: str, sql: str, *, poll_s: float = POLL_S) -> None:
        super().__init__(f"PostgreSQL, {sql}", poll_s=poll_s)
        self._dsn = dsn
        self._sql = sql
        self._connection: BoundedConnection | None = None

    def rows(self) -> list[tuple[Any, ...]]:
        """What the statement shows now."""
        if self._connection is None:
            # The sinks' connection, for its deadline: it gives up on a server that is frozen or cut off.
            from tpc.sinks.postgres.connection import connect

            self._connection = connect(self._dsn, ANSWER_TIMEOUT_S)
            self._connection.answer_within_s = ANSWER_TIMEOUT_S
        return self._connection.execute(self._sql.encode()).fetchall()

    def is_away(self, error: Exception) -> bool:
        """Whether the connection broke, could not be made, or was silent."""
        import psycopg

        return isinstance(error, psycopg.OperationalError)

    def disconnect(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class PostgresRowsReader(PostgresReader):
    """The ids that `sql` shows: the values of its column, or tuples where it has several."""

    def __init__(self, dsn: str, sql: str, *, poll_s: float = POLL_S) -> None:
        super().__init__(dsn, sql, poll_s=poll_s)
        self.seen: SeenRows = SeenRows()

    def look(self) -> bool:
        """One statement."""
        rows = self.rows()
        self.seen.take(self.after_s, [row[0] if len(row) == 1 else row for row in rows])
        return True


class FileRowsReader(Reader):
    """The values of `column` in the Parquet files that manifests name; of one pipeline's, if it is named.

    A file that a manifest names and that is not there shows no rows. The directory need not be there yet.
    """

    def __init__(self, directory: Path, column: str, *, pipeline: str | None = None, poll_s: float = POLL_S) -> None:
        super().__init__(f"the files in {directory}", poll_s=poll_s)
        self.seen: SeenRows = SeenRows()
        self._directory = directory
        self._column = column
        self._pipeline = pipeline
        self._named: dict[tuple[Path, int], Sequence[Path]] = {}
        """The files that each manifest names, by its path and the time of its last change."""
        self._read: dict[tuple[Path, int], Sequence[Hashable]] = {}
        """The ids in each file, likewise."""

    def look(self) -> bool:
        """List the manifests, and read the files that are new."""
        ids: list[Hashable] = []
        for manifest in manifests(self._directory, self._pipeline):
            for path in self._files(manifest):
                ids += self._ids(path)
        self.seen.take(self.after_s, ids)
        return True

    def _files(self, manifest: Path) -> Sequence[Path]:
        try:
            key = (manifest, manifest.stat().st_mtime_ns)
            if key not in self._named:
                self._named[key] = files_of(manifest, self._directory)
        except FileNotFoundError:  # withdrawn since it was listed
            return []
        return self._named[key]

    def _ids(self, path: Path) -> Sequence[Hashable]:
        try:
            key = (path, path.stat().st_mtime_ns)
            if key not in self._read:
                from pyarrow import parquet

                self._read[key] = parquet.read_table(path, columns=[self._column]).column(0).to_pylist()
        except FileNotFoundError:
            return []
        return self._read[key]

    def is_away(self, error: Exception) -> bool:
        """Never: the files are here."""
        return False

    def disconnect(self) -> None:
        """There is no connection."""


# Readers that take down amounts by key, in MongoDB, PostgreSQL or a service's state, while a run is being disturbed.


class PostgresTalliesReader(PostgresReader):
    """The first column of `sql` is the key, the others are the amounts."""

    def __init__(self, dsn: str, sql: str, *, poll_s: float = POLL_S) -> None:
        super().__init__(dsn, sql, poll_s=poll_s)
        self.seen: SeenTallies = SeenTallies()

    def look(self) -> bool:
        """One statement."""
        self.seen.take(self.after_s, {row[0]: row[1:] for row in self.rows()})
        return True


class MongoTalliesReader(Reader):
    """The fields `amounts` of every document of a collection, by `_id`. The collection need not be there yet.

    A find is no snapshot: each document is read at a moment of its own.
    """

    def __init__(
        self, uri: str, database: str, collection: str, amounts: Sequence[str], *, poll_s: float = POLL_S
    ) -> None:
        super().__init__(f"MongoDB collection {database}.{collection}", poll_s=poll_s)
        self.seen: SeenTallies = SeenTallies()
        self._uri = uri
        self._names = (database, collection)
        self._amounts = tuple(amounts)
        self._client: Any = None

    def look(self) -> bool:
        """One find."""
        if self._client is None:
            from pymongo import MongoClient

            timeout_ms = int(ANSWER_TIMEOUT_S * 1000)
            self._client = MongoClient(
                self._uri,
                serverSelectionTimeoutMS=timeout_ms,
                connectTimeoutMS=timeout_ms,
                socketTimeoutMS=timeout_ms,
                retryReads=False,  # the next look is the next try
            )
        database, collection = self._names
        documents = self._client[database][collection].find({}, dict.fromkeys(self._amounts, 1))
        self.seen.take(self.after_s, {one["_id"]: tuple(one[name] for name in self._amounts) for one in documents})
        return True

    def is_away(self, error: Exception) -> bool:
        """Whether no server was found, a connection broke, or an answer did not come."""
        from pymongo.errors import ConnectionFailure, ExecutionTimeout

        return isinstance(error, (ConnectionFailure, ExecutionTimeout))

    def disconnect(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


class StateTalliesReader(Reader):
    """Every value of a service's state by its key, a list of amounts. Its store need not be there yet."""

    def __init__(self, store: Path, pipeline: str, *, poll_s: float = POLL_S) -> None:
        super().__init__(f"state {store.stem}", poll_s=poll_s)
        self.seen: SeenTallies = SeenTallies()
        self._store = store
        self._pipeline = pipeline

    def look(self) -> bool:
        """One moment of the store."""
        content = read_store(self._store, self._pipeline).values if self._store.exists() else {}
        self.seen.take(self.after_s, {key: tuple(value) for key, value in content.items()})
        return True

    def is_away(self, error: Exception) -> bool:
        """Whether somebody else has the file for himself: it is recovered after a kill, or just made."""
        return isinstance(error, sqlite3.OperationalError)

    def disconnect(self) -> None:
        """Nothing is kept open."""
