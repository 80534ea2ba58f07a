"""An epoch's changes become one redo delta, durable under the branch's handle. Applies nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow

from tpc import failpoints
from tpc.coordinator.service.state import changes
from tpc.coordinator.service.state.database import Database
from tpc.coordinator.service.state.parts import drop_delta, in_order, put_delta
from tpc.errors import HistoryMismatchError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Writer

if TYPE_CHECKING:
    from tpc.coordinator.service.state.sink import StateSink


def forget(transaction: sqlite3.Connection, handles: Iterable[str]) -> None:
    """Remove what is prepared under these handles; what is applied stays."""
    for handle in handles:
        question = "SELECT delta FROM deltas WHERE handle = ? AND applied = 0"
        for (delta,) in transaction.execute(question, [handle]).fetchall():
            drop_delta(transaction, delta)


class StateWriter(Writer):
    """Holds the changes until `prepare`, one transaction, which stores them whole."""

    def __init__(self, sink: StateSink, handle: Handle, hint: JSONObject) -> None:
        self.sink = sink
        self.handle = handle
        self.applied_before: int = hint["after"]
        self._rests_on: int | None = None
        self._batches: list[pyarrow.RecordBatch] = []

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take changes. Raises `DataError` for rows that are none."""
        on = changes.rests_on(batch)
        if on not in (None, self.applied_before):
            raise HistoryMismatchError(
                f"the state in memory rests on epoch {on}, and the store {self.sink.path} is at {self.applied_before}",
                epoch=self.handle.epoch,
                sink=self.sink.name,
                remedy="restart: the state is read from its store then.",
            )
        if batch.num_rows:
            self._rests_on = on
            self._batches.append(changes.checked(batch))

    def prepare(self) -> Committable | None:
        """One durable insert. Raises `DataError` when a key stands there twice."""
        if not self._batches:
            return None
        rows = in_order(self._batches, self.sink.name)
        database = self._database()
        try:
            with database.transaction("preparing in") as transaction:
                forget(transaction, [str(self.handle)])
                owned = f"{self.handle.pipeline.prefix}{self.sink.name}"
                put_delta(transaction, (str(self.handle), owned, self.handle.epoch), rows, applied=0)
                failpoints.hit_branch("pass.flushed", self.handle)
        finally:
            database.close()
        known = {} if self._rests_on is None else {"rests_on": self._rests_on}
        data: JSONObject = {"after": self.applied_before, **known}
        size_bytes = sum(batch.nbytes for batch in self._batches)
        return Committable(self.handle, str(self.handle), rows.num_rows, size_bytes, data)

    def abort(self) -> None:
        """Remove the delta, if it is there."""
        self._batches.clear()
        database = self._database()
        try:
            with database.transaction("aborting in") as transaction:
                forget(transaction, [str(self.handle)])
        finally:
            database.close()

    def _database(self) -> Database:
        return Database(self.sink.path, self.sink.timeout_s, self.sink.name)
