"""Fills a store with another content in one transaction: killed in the middle it is as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from tpc.changelog import Content, Row
from tpc.coordinator.loop.state.changelog_rows import content_of
from tpc.coordinator.loop.state.database import Database
from tpc.coordinator.loop.state.sink import StateSink
from tpc.coordinator.loop.state.store import content_of as number_of
from tpc.coordinator.loop.state.store import kept_apart, owner_of
from tpc.handles import Handle, PipelineId
from tpc.sink import Owner


class StoreFilling:
    """The content of one pipeline and incarnation in a store, which is made where it is not there."""

    def __init__(self, sink: StateSink, pipeline: PipelineId) -> None:
        self._owned = f"{pipeline.prefix}{sink.name}"
        self._database = Database(sink.path, sink.timeout_s, sink.name)
        self._open: sqlite3.Connection | None = None
        self._content = -1
        self._apart: int | None = None
        """The delta of what is put since the mark."""

    @contextmanager
    def filled(self) -> Iterator[StoreFilling]:
        """What is done within is there all of it, durable, or nothing of it."""
        self._database.make()
        try:
            with self._database.transaction("filling") as self._open:
                yield self
                self._put_together()
        finally:
            self._open = None
            self._database.close()

    @property
    def _transaction(self) -> sqlite3.Connection:
        assert self._open is not None
        return self._open

    def owner(self) -> Owner | None:
        """The term that the store has met last: nobody gets ahead of this transaction any more."""
        return owner_of(self._transaction, self._owned)

    def clear(self) -> None:
        """Nothing is held or shown; what is prepared stays."""
        self._content = number_of(self._transaction, self._owned, make=True)
        self._transaction.execute("DELETE FROM entries WHERE content = ?", [self._content])
        self._transaction.execute("DELETE FROM markers WHERE owned = ?", [self._owned])
        for _, delta, _ in kept_apart(self._transaction, self._owned):
            self._drop(delta)
        self._apart = None

    def put(self, row: Row) -> None:
        """A key has this value, or is gone."""
        if self._apart is not None:
            self._transaction.execute("INSERT OR REPLACE INTO changes VALUES (?, ?, ?, ?)", (self._apart, *row))
        elif row.value is None:
            self._transaction.execute("DELETE FROM entries WHERE content = ? AND key = ?", (self._content, row.key))
        else:
            self._transaction.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (self._content, *row))

    def mark(self) -> None:
        """See `Filling`."""
        entry = "INSERT INTO deltas (handle, owned, epoch, rows, applied) VALUES ('', ?, -1, 0, 1)"
        self._apart = self._transaction.execute(entry, [self._owned]).lastrowid
        self._transaction.execute("DELETE FROM changes WHERE delta = ?", [self._apart])  # of one that was removed

    def back(self) -> None:
        """See `Filling`."""
        if self._apart is not None:
            self._drop(self._apart)
            self._apart = None

    def content(self) -> Content:
        """All of it, gone through."""
        columns = "SELECT key, value, expires_ms FROM"
        apart = f"{columns} changes WHERE delta = :apart AND value IS NOT NULL"
        below = f"{columns} entries WHERE content = :content"
        not_over = "key NOT IN (SELECT key FROM changes WHERE delta = :apart)"
        known = {"apart": self._apart, "content": self._content}
        held = self._transaction.execute(f"{below} AND {not_over} UNION ALL {apart}", known)
        return content_of(map(Row._make, held))

    def _put_together(self) -> None:
        """What is not kept apart by then is among the entries."""
        apart, self._apart = self._apart, None
        if apart is not None:
            question = "SELECT key, value, expires_ms FROM changes WHERE delta = ?"
            for row in self._transaction.execute(question, [apart]).fetchall():
                self.put(Row._make(row))
            self._drop(apart)

    def _drop(self, delta: int) -> None:
        for table in ("changes", "deltas"):
            self._transaction.execute(f"DELETE FROM {table} WHERE delta = ?", [delta])

    def identify(self, identity: str) -> None:
        """The store is the one that the log knows under this name."""
        self._transaction.execute("UPDATE identity SET uuid = ?", [identity.partition(":")[2]])

    def show(self, handle: Handle) -> None:
        """The epoch of this branch is applied."""
        marker = (str(handle), self._owned, handle.epoch, handle.generation)
        self._transaction.execute("INSERT OR REPLACE INTO markers VALUES (?, ?, ?, ?)", marker)

    def keep_apart(self, handle: Handle) -> None:
        """What has been put since the mark was the epoch of this branch, which can be taken back."""
        rows = "(SELECT count(*) FROM changes WHERE changes.delta = deltas.delta)"
        known = (str(handle), handle.epoch, self._apart)
        self._transaction.execute(f"UPDATE deltas SET handle = ?, epoch = ?, rows = {rows} WHERE delta = ?", known)
        self._apart = None
