"""Readers that take down amounts by key, in MongoDB, PostgreSQL or a loop's state, while a run is being disturbed."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tpc.chaos.checkers.loop_state import read_store
from tpc.chaos.checkers.seen import SeenTallies
from tpc.chaos.checkers.watch_rows import PostgresReader
from tpc.chaos.checkers.watching import ANSWER_TIMEOUT_S, POLL_S, Reader


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
    """Every value of a loop's state by its key, a list of amounts. Its store need not be there yet."""

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
