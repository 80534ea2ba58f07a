"""An epoch's changes become one redo delta, durable under the branch's handle. Applies nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow

from tpc import failpoints
from tpc.coordinator.loop.state import changes
from tpc.coordinator.loop.state.database import Database
from tpc.errors import DataError, HistoryMismatchError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import Committable, Writer

if TYPE_CHECKING:
    from tpc.coordinator.loop.state.sink import StateSink


class StateWriter(Writer):
    """Holds the changes until `prepare`, one transaction, which stores them whole."""

    def __init__(self, sink: StateSink, handle: Handle, hint: JSONObject) -> None:
        self.sink = sink
        self.handle = handle
        self.after: int = hint["after"]
        self._rests_on: int | None = None
        self._batches: list[pyarrow.RecordBatch] = []

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take changes. Raises `DataError` for rows that are none."""
        on = changes.rests_on(batch)
        if on not in (None, self.after):
            raise HistoryMismatchError(
                f"the state in memory rests on epoch {on}, and the store {self.sink.path} is at {self.after}",
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
        rows = sum(batch.num_rows for batch in self._batches)
        if len({key for batch in self._batches for key in batch.column("key").to_pylist()}) < rows:
            raise DataError("a key of a state was changed twice in an epoch", sink=self.sink.name, column="key")
        delta = changes.to_bytes(self._batches)
        database = self._database()
        try:
            with database.transaction("preparing in") as transaction:
                transaction.execute("INSERT OR REPLACE INTO deltas VALUES (?, ?)", (str(self.handle), delta))
                failpoints.hit_branch("pass.flushed", self.handle)
        finally:
            database.close()
        known = {} if self._rests_on is None else {"rests_on": self._rests_on}
        data: JSONObject = {"after": self.after, **known}
        return Committable(self.handle, str(self.handle), rows, len(delta), data)

    def abort(self) -> None:
        """Remove the delta, if it is there."""
        self._batches.clear()
        database = self._database()
        try:
            with database.transaction("aborting in") as transaction:
                transaction.execute("DELETE FROM deltas WHERE handle = ?", [str(self.handle)])
        finally:
            database.close()

    def _database(self) -> Database:
        return Database(self.sink.path, self.sink.timeout_s, self.sink.name)
