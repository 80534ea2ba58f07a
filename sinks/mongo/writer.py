"""The writer of the MongoDB sink: it turns rows into operations, and operations into parts of the outbox.

Memory is bounded by one part (8 MB). Before a part is written to the outbox its targets are read, so that a row that
the target would refuse is refused before the epoch is decided.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpc import failpoints
from tpc.errors import DataError, TpcError
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.merge import MergePlan
from tpc.sink import Committable, Writer
from tpc.sinks.mongo.connection import Document, DocumentCollection, retried, shared, transient
from tpc.sinks.mongo.operations import (
    ROWS,
    WRITING,
    described,
    insert_operation,
    operation_name,
    read_targets,
    target_id,
)
from tpc.sinks.mongo.outbox import OUTBOX, Outbox, PartBuffer
from tpc.sinks.mongo.row_documents import RowDocuments
from tpc.sinks.mongo.rows_of_key import combined
from tpc.sinks.mongo.values import GUARDS, INT64_MAX, INT64_MIN, comparable, hashable

if TYPE_CHECKING:
    import pyarrow

    from tpc.sinks.mongo.sink import MongoSink

logger = logging.getLogger(__name__)


class MongoWriter(Writer):
    """One branch: rows into operations, operations into outbox parts.

    `hint["after"]` is the epoch of the newest marker before this one (-1: none), and `hint["base"]` the marker's base.
    They later distinguish a lost branch from one that was applied. `hint["mode"]` is the mode that the committer found,
    for reports; `hint["run"]` is part of the names of operations (see `owners`).
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
        """Merge a row. Rows of one key are next to each other; they become one operation when the next key begins."""
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
        """Write the rest to the outbox; None without rows. On an error the branch is removed from the outbox."""
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
        """Check the targets of the buffered operations, then write these as a part of the outbox."""
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


# A check of the targets before the epoch is decided, for operations that would otherwise be refused at apply.
#
# It sees the targets as they are now. A change by another writer before the apply, a unique index, or a schema
# validator may still make the server refuse an operation at apply: then the epoch is parked.

IDS_PER_READ = 1000
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
SIZE_CHECKED_FROM_BYTES = 64 * 1024
"""For operations of at least this size the size of the result is checked, which reads the whole target."""

Fault = tuple[Document, str, str | None]


def refuse_impossible(target: DocumentCollection, operations: Sequence[Document]) -> Iterator[Fault]:
    """The operations that the targets will not take as they are now, each with the reason and the column."""
    for start in range(0, len(operations), IDS_PER_READ):
        chunk = [o for o in operations[start : start + IDS_PER_READ] if "insert" not in o or "id" in o]
        if not chunk:
            continue
        fields = {GUARDS}.union(*(_columns_looked_at(operation) for operation in chunk))
        targets = retried(read_targets, target, chunk, fields)
        for operation in chunk:
            stored = targets.get(hashable(target_id(operation)))
            fault = stored and _fault(operation, stored)
            if fault:
                yield operation, *fault
    yield from _too_large(target, operations)


def _columns_looked_at(operation: Document) -> Iterable[str]:
    return [*operation.get("inc", ()), *(column for column, _ in _orders(operation))]


def _orders(operation: Document) -> Iterator[tuple[str, Any]]:
    """The columns that are compared with the target's, and their values."""
    if "order" in operation:
        yield operation["order"][0], operation["order"][1]
    for section in ROWS:
        if (by := operation.get(f"{section}_by")) is not None:
            yield by, operation[section][by]


def _fault(operation: Document, stored: Document) -> tuple[str, str | None] | None:
    if "insert" in operation:
        return "a document with this _id is there already", "_id"
    if not isinstance(stored.get(GUARDS, {}), dict):
        return f"the document has its own field {GUARDS!r}, which is reserved for this library", GUARDS
    for column, increment in operation.get("inc", {}).items():
        if column in stored and (fault := _fault_of_sum(stored[column], increment)):
            return fault, column
    for column, order in _orders(operation):
        newest = stored.get(column)
        if newest is not None and order is not None and not _can_be_compared(order, newest):
            return f"the stored value is a {type(newest).__name__}, the new one a {type(order).__name__}", column
    return None


def _fault_of_sum(stored: Any, increment: Any) -> str | None:
    value = comparable(stored)
    if type(stored).__name__ not in ("int", "Int64", "float", "Decimal128"):
        return f"the stored value is no number but a {type(stored).__name__}, so nothing can be added to it"
    if isinstance(value, int) and isinstance(increment, int) and not INT64_MIN <= value + increment <= INT64_MAX:
        return "the sum does not fit into 64 bits"
    return None


def _can_be_compared(left: Any, right: Any) -> bool:
    try:
        comparable(left) < comparable(right)  # noqa: B015  only whether it raises
    except TypeError:
        return False
    return True


def _too_large(target: DocumentCollection, operations: Sequence[Document]) -> Iterator[Fault]:
    """Merges whose result would exceed MongoDB's limit, every written column counted with its new value."""
    import bson
    from bson.raw_bson import RawBSONDocument

    raw = target.with_options(codec_options=bson.CodecOptions(document_class=RawBSONDocument))
    for operation in operations:
        if "insert" in operation:
            continue
        size_bytes = len(bson.encode(operation))
        if size_bytes < SIZE_CHECKED_FROM_BYTES:
            continue
        target_document = retried(raw.find_one, {"_id": operation["key"]})
        if target_document is None:
            continue
        written = {column for section in WRITING for column in operation.get(section, ())}
        kept = {name: value for name, value in target_document.items() if name not in written}
        result_bytes = len(bson.encode(kept)) + size_bytes
        if result_bytes > MAX_DOCUMENT_BYTES:
            yield operation, f"the document would grow to {result_bytes} bytes; MongoDB takes 16 MB", None
