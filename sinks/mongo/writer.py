"""The executor's half of the MongoDB sink: rows become operations, operations become parts of the outbox.

Memory is bounded by one part (8 MB). Before a part goes to the outbox its targets are read, so that what can be
refused is refused before the epoch is decided (`refused_operations`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from tpc import failpoints
from tpc.errors import DataError, TpcError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.merge import MergePlan
from tpc.sink import Committable, Writer
from tpc.sinks.mongo.connection import Document, shared, transient
from tpc.sinks.mongo.operations import described, insert_operation, operation_name
from tpc.sinks.mongo.outbox import OUTBOX, Outbox, PartBuffer
from tpc.sinks.mongo.refused_operations import refuse_impossible
from tpc.sinks.mongo.row_documents import RowDocuments
from tpc.sinks.mongo.rows_of_key import combined
from tpc.sinks.mongo.values import hashable

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.mongo.sink import MongoSink

logger = logging.getLogger(__name__)


class MongoWriter(Writer):
    """One branch: rows into operations, operations into outbox parts.

    `hint["after"]` is the epoch of the newest marker before this one (-1: none), and `hint["base"]` the marker's base:
    they later tell a lost branch from one that was applied. `hint["mode"]` is the mode the driver found, for reports;
    `hint["run"]` goes into the names of operations (see `owners`).
    """

    def __init__(self, sink: MongoSink, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> None:
        self.sink = sink
        self.handle = handle
        self.hint = hint
        self.run = str(hint.get("run", ""))
        self._documents = RowDocuments(sink, handle, schema)
        self.plan = self._documents.plan
        self.rows = 0
        self.parts = 0
        self.size_bytes = 0
        self._buffer = PartBuffer()
        self._digest = hashlib.sha256()
        self._keys: set[Hashable] = set()
        self._held: tuple[Hashable, Document, Mapping[str, Any]] | None = None

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Take rows. Raises `DataError` for one that can never be stored, `TransientError` for a failing server."""
        for row, values in self._documents.of(batch):
            if self.plan is not None:
                self._merge(values, row, self.plan)
            else:
                if self._documents.key_columns:
                    self._require_new_key(self._key_of(values), row)
                self._take(insert_operation(values, operation_name(self.handle, self.run, self.rows)), row)
            self.rows += 1

    def _key_of(self, values: Document) -> Hashable:
        return hashable({column: values[column] for column in self._documents.key_columns})

    def _merge(self, values: Document, row: Mapping[str, Any], plan: MergePlan) -> None:
        """Rows of one key come next to each other: they become one operation when the next key begins."""
        key = self._key_of(values)
        if self._held is not None and self._held[0] == key:
            try:
                self._held = (key, combined(self._held[1], values, plan), row)
            except ValueError as error:
                raise self._documents.unfit(str(error), row, None) from None
            return
        self._end_key()
        self._require_new_key(key, row)
        self._held = (key, values, row)

    def _end_key(self) -> None:
        if self._held is None:
            return
        (_, values, row), self._held = self._held, None
        self._take(self._documents.merged(values), row)

    def _take(self, operation: Document, row: Mapping[str, Any]) -> None:
        encoded = self._documents.encoded(operation, row)
        if not self._buffer.has_room(len(encoded)):
            self._flush()
        self._buffer.add(operation, encoded)

    def _require_new_key(self, key: Hashable, row: Mapping[str, Any]) -> None:
        if key in self._keys:
            raise self._documents.unfit("two rows of one branch have this key", row, self._documents.key_columns[0])
        self._keys.add(key)

    def prepare(self) -> Committable | None:
        """Put the rest into the outbox; None without rows. On an error the branch is removed from the outbox."""
        if not self.rows:
            return None
        try:
            self._end_key()
            self._flush(is_last=True)
        except TpcError:
            try:
                self.abort()
            except TpcError:
                logger.warning("%s: its outbox documents remain for the next sweep", self.handle, exc_info=True)
            raise
        data = {"parts": self.parts, "sha256": self._digest.hexdigest()}
        data.update({name: self.hint[name] for name in ("after", "base", "mode", "run") if name in self.hint})
        return Committable(self.handle, str(self.handle), self.rows, self.size_bytes, data)

    def _flush(self, *, is_last: bool = False) -> None:
        """Look at the targets of the buffered operations, then make them a part of the outbox."""
        part, self._buffer = self._buffer, PartBuffer()
        database = shared(self.sink.uri, self.sink.timeout_s)[self.sink.database_name()]
        with transient("writing to the MongoDB outbox", **self._where()):
            for operation, fault, column in refuse_impossible(database[self.sink.collection], part.operations):
                raise DataError(
                    f"{described(operation)} is impossible: {fault}",
                    column=column,
                    key=described(operation),
                    **self._where(),
                )
            if is_last:  # with this part the branch is prepared
                failpoints.hit_branch("pass.flushed", self.handle)
            digest = Outbox(database[OUTBOX]).put(self.handle, self.parts, part)
        self._digest.update(bytes.fromhex(digest))
        self.parts += 1
        self.size_bytes += part.size_bytes

    def abort(self) -> None:
        """Remove whatever of this branch is in the outbox. Raises `TransientError` if the server does not answer."""
        self._buffer = PartBuffer()
        if self.parts or self.rows:
            database = shared(self.sink.uri, self.sink.timeout_s)[self.sink.database_name()]
            with transient("emptying the MongoDB outbox", **self._where()):
                Outbox(database[OUTBOX]).delete_branches([str(self.handle)])

    def _where(self) -> Mapping[str, Any]:
        return {"pipeline": str(self.handle.pipeline), "epoch": self.handle.epoch, "sink": self.sink.name}
