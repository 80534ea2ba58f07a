"""Fills a store with another content in one transaction: killed in the middle it is as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

from tpc.changelog import Content, Row
from tpc.coordinator.service.state.changelog_rows import content_of
from tpc.coordinator.service.state.changes import Change, to_batch
from tpc.coordinator.service.state.database import Database
from tpc.coordinator.service.state.parts import drop_delta, in_order, put_delta
from tpc.coordinator.service.state.sink import StateSink
from tpc.coordinator.service.state.store import content_of as number_of
from tpc.coordinator.service.state.store import kept_apart, owner_of
from tpc.coordinator.service.state.writer import forget
from tpc.handles import Handle, PipelineId
from tpc.sink import Owner


class StoreFilling:
    """The content of one pipeline and incarnation in a store, which is made where it is not there."""

    def __init__(self, sink: StateSink, pipeline: PipelineId) -> None:
        self._owned = f"{pipeline.prefix}{sink.name}"
        self._database = Database(sink.path, sink.timeout_s, sink.name)
        self._open: sqlite3.Connection | None = None
        self._content = -1
        self._apart: dict[bytes, Row] | None = None
        """What is put since the mark, by its key: the changes of one epoch, which memory has held before."""

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
        for kept in kept_apart(self._transaction, self._owned):
            drop_delta(self._transaction, kept.delta)
        self._apart = None

    def put(self, row: Row) -> None:
        """A key has this value, or is gone."""
        if self._apart is not None:
            self._apart[row.key] = row
        elif row.value is None:
            self._transaction.execute("DELETE FROM entries WHERE content = ? AND key = ?", (self._content, row.key))
        else:
            self._transaction.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", (self._content, *row))

    def mark(self) -> None:
        """See `Filling`."""
        self._apart = {}

    def back(self) -> None:
        """See `Filling`."""
        self._apart = None

    def content(self) -> Content:
        """All of it, gone through."""
        apart = self._apart or {}
        below = self._transaction.execute(
            "SELECT key, value, expires_ms FROM entries WHERE content = ?", [self._content]
        )
        held = (Row._make(row) for row in below if row[0] not in apart)
        return content_of(chain(held, (row for row in apart.values() if row.value is not None)))

    def _put_together(self) -> None:
        """What is not kept apart by then is among the entries."""
        apart, self._apart = self._apart, None
        for row in (apart or {}).values():
            self.put(row)

    def identify(self, identity: str) -> None:
        """The store is the one that the log knows under this name."""
        self._transaction.execute("UPDATE identity SET uuid = ?", [identity.partition(":")[2]])

    def show(self, handle: Handle) -> None:
        """The epoch of this branch is applied."""
        marker = (str(handle), self._owned, handle.epoch, handle.generation)
        self._transaction.execute("INSERT OR REPLACE INTO markers VALUES (?, ?, ?, ?)", marker)

    def keep_apart(self, handle: Handle) -> None:
        """What has been put since the mark was the epoch of this branch, which can be taken back."""
        rows = in_order([to_batch(map(Change._make, (self._apart or {}).values()))], self._database.sink)
        forget(self._transaction, [str(handle)])  # the same rows, prepared, where that is there
        put_delta(self._transaction, (str(handle), self._owned, handle.epoch), rows, applied=1)
        self._apart = None
