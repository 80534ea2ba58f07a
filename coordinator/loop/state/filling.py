"""Fills a store with another content in one transaction: killed in the middle it is as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from tpc.changelog import Content, Row
from tpc.coordinator.loop.state import changes
from tpc.coordinator.loop.state.changelog_rows import content_of
from tpc.coordinator.loop.state.changes import Change
from tpc.coordinator.loop.state.database import Database
from tpc.coordinator.loop.state.sink import StateSink
from tpc.coordinator.loop.state.store import content_of as number_of
from tpc.handles import Handle, PipelineId


class StoreFilling:
    """The content of one pipeline and incarnation in a store, which is made where it is not there."""

    def __init__(self, sink: StateSink, pipeline: PipelineId) -> None:
        self._owned = f"{pipeline.prefix}{sink.name}"
        self._database = Database(sink.path, sink.timeout_s, sink.name)
        self._open: sqlite3.Connection | None = None
        self._content = -1
        self._undo: dict[bytes, Change] | None = None
        """What the keys held at the mark that have changed since."""

    @contextmanager
    def filled(self) -> Iterator[StoreFilling]:
        """What is done within is there all of it, durable, or nothing of it."""
        self._database.make()
        try:
            with self._database.transaction("filling") as self._open:
                yield self
        finally:
            self._open = None
            self._database.close()

    @property
    def _transaction(self) -> sqlite3.Connection:
        assert self._open is not None
        return self._open

    def clear(self) -> None:
        """Nothing is held, shown or undone."""
        self._content = number_of(self._transaction, self._owned, make=True)
        self._transaction.execute("DELETE FROM entries WHERE content = ?", [self._content])
        for table in ("markers", "undo"):
            self._transaction.execute(f"DELETE FROM {table} WHERE owned = ?", [self._owned])
        self._undo = None

    def put(self, row: Row) -> None:
        """A key has this value, or is gone."""
        if self._undo is not None and row.key not in self._undo:
            question = "SELECT value, expires_ms FROM entries WHERE content = ? AND key = ?"
            held = self._transaction.execute(question, (self._content, row.key)).fetchone()
            self._undo[row.key] = Change(row.key, *(held or (None, None)))
        if row.value is None:
            self._transaction.execute("DELETE FROM entries WHERE content = ? AND key = ?", (self._content, row.key))
        else:
            self._transaction.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (self._content, *row))

    def mark(self) -> None:
        """See `Filling`."""
        self._undo = {}

    def back(self) -> None:
        """See `Filling`."""
        undo, self._undo = self._undo or {}, None
        for before in undo.values():
            self.put(Row(*before))

    def content(self) -> Content:
        """All of it, gone through."""
        question = "SELECT key, value, expires_ms FROM entries WHERE content = ?"
        return content_of(map(Row._make, self._transaction.execute(question, [self._content])))

    def identify(self, identity: str) -> None:
        """The store is the one that the log knows under this name."""
        self._transaction.execute("UPDATE identity SET uuid = ?", [identity.partition(":")[2]])

    def show(self, handle: Handle) -> None:
        """The epoch of this branch is applied."""
        marker = (str(handle), self._owned, handle.epoch, handle.generation)
        self._transaction.execute("INSERT OR REPLACE INTO markers VALUES (?, ?, ?, ?)", marker)

    def keep_undo(self, epoch: int) -> None:
        """What has been put since the mark was this epoch's."""
        undo = changes.to_bytes([changes.to_batch((self._undo or {}).values())])
        self._transaction.execute("INSERT INTO undo VALUES (?, ?, ?)", (self._owned, epoch, undo))
