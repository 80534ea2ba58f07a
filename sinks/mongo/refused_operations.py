"""A look at the targets before the epoch is decided: operations that could only be refused when they are applied.

It sees the targets as they are now. What others change between this look and the apply, a unique index, or a
schema validator may still refuse an operation then: the epoch is parked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tpc.sinks.mongo.connection import Document, DocumentCollection, retried
from tpc.sinks.mongo.operations import ROWS, WRITING, read_targets, target_id
from tpc.sinks.mongo.values import GUARDS, INT64_MAX, INT64_MIN, comparable, hashable

IDS_PER_READ = 1000
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
SIZE_CHECKED_FROM_BYTES = 64 * 1024
"""Operations from this size on have the size of their result checked, which reads the whole target."""

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
        return f"the document has a field {GUARDS!r} of its own, which this library needs", GUARDS
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
        return f"the stored value is no number but a {type(stored).__name__}, nothing can be added to it"
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
