"""Applies the operations of decided branches to the target: in one transaction, or guarded one by one.

Both ways read what the targets hold, make the writes that are still missing (`guarded_writes.planned`) and send
them in unordered bulks. Guarded: a duplicate key on `_id` means that somebody else wrote the target meanwhile; it
is read again, and only a guard found at this epoch counts as applied. What can never be applied is a `Refusal`;
the other operations are applied all the same, and a later apply finishes what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpc.errors import TransientError
from tpc.sinks.mongo.connection import Document, DocumentCollection, retried
from tpc.sinks.mongo.guarded_writes import Refusal, Stamp, fields_read, planned
from tpc.sinks.mongo.operations import described, read_targets, target_id
from tpc.sinks.mongo.transactions import RefusedError
from tpc.sinks.mongo.values import hashable

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession
    from pymongo.errors import BulkWriteError

OPERATIONS_PER_WRITE = 500
ROUNDS = 5
DUPLICATE_KEY = 11000
REFUSALS: Mapping[int, str] = {
    2: "BadValue",
    14: "TypeMismatch",
    28: "PathNotViable",
    54: "NotSingleValueField",
    66: "ImmutableField",
    121: "DocumentValidationFailure",
    10334: "BSONObjectTooLarge",
    DUPLICATE_KEY: "DuplicateKey",
    17419: "document larger than 16 MB",
    17420: "document larger than 16 MB",
}
"""Codes of write errors that come back whenever the same operation meets the same target (MongoDB error codes)."""


def apply_guarded(target: DocumentCollection, parts: Iterable[Sequence[Document]], stamp: Stamp) -> Refusal | None:
    """Apply every operation that is possible and not yet applied; the first that is impossible, if any.

    Raises PyMongo's errors and `TransientError` (operations that others keep overtaking).
    """
    first: Refusal | None = None
    for chunk in _chunks(parts):
        refusal = _apply_chunk(target, chunk, stamp)
        first = first or refusal
    return first


def _apply_chunk(target: DocumentCollection, chunk: Sequence[Document], stamp: Stamp) -> Refusal | None:
    from pymongo.errors import BulkWriteError

    first: Refusal | None = None
    for _ in range(ROUNDS):
        stored = retried(read_targets, target, chunk, fields_read(chunk))
        writes: list[tuple[Document, Any]] = []
        for operation in chunk:
            write = planned(operation, stored.get(hashable(target_id(operation))), stamp)
            if isinstance(write, Refusal):
                first = first or Refusal(f"{described(operation)}: {write.reason}")
            elif write is not None:
                writes.append((operation, write))
        if not writes:
            return first
        try:
            target.bulk_write([write for _, write in writes], ordered=False)
        except BulkWriteError as error:
            chunk, refusal = _sorted_out(error, [operation for operation, _ in writes])
            first = first or refusal
        else:
            return first
        if not chunk:
            return first
    raise TransientError(f"{len(chunk)} operations were overtaken {ROUNDS} times, first {described(chunk[0])}")


def _sorted_out(error: BulkWriteError, operations: Sequence[Document]) -> tuple[list[Document], Refusal | None]:
    """The operations to try again, and the first that never will do. Raises `error` for anything else."""
    again: list[Document] = []
    refusal: Refusal | None = None
    failures = (error.details or {}).get("writeErrors", [])
    if not failures or (error.details or {}).get("writeConcernErrors"):
        raise error
    for failure in failures:
        operation = operations[failure["index"]]
        if _is_overtaken(failure):
            again.append(operation)
        elif failure["code"] in REFUSALS:
            refusal = refusal or Refusal(f"{described(operation)}: {_reason(failure)}")
        else:
            raise error
    return again, refusal


def _is_overtaken(failure: Mapping[str, Any]) -> bool:
    """Whether a duplicate key is the one on `_id`: the target is not as it was read."""
    if failure["code"] != DUPLICATE_KEY:
        return False
    pattern = failure.get("keyPattern")
    return dict(pattern) == {"_id": 1} if pattern else _index_of(failure) == "_id_"


def _index_of(failure: Mapping[str, Any]) -> str:
    match = re.search(r" index: (\S+)", str(failure.get("errmsg", "")))
    return match.group(1) if match else "?"


def _reason(failure: Mapping[str, Any]) -> str:
    name = f"{REFUSALS[failure['code']]} (code {failure['code']})"
    return f"{name} on unique index {_index_of(failure)}" if failure["code"] == DUPLICATE_KEY else name


def apply_in_transaction(
    target: DocumentCollection, parts: Iterable[Sequence[Document]], stamp: Stamp, session: ClientSession
) -> None:
    """Apply every operation inside `session`'s transaction. Raises `RefusedError`, or PyMongo's errors."""
    from pymongo.errors import BulkWriteError

    for chunk in _chunks(parts):
        stored = read_targets(target, chunk, fields_read(chunk), session)
        writes: list[tuple[Document, Any]] = []
        for operation in chunk:
            write = planned(operation, stored.get(hashable(target_id(operation))), stamp)
            if isinstance(write, Refusal):
                raise RefusedError(Refusal(f"{described(operation)}: {write.reason}"))
            if write is not None:
                writes.append((operation, write))
        if not writes:
            continue
        try:
            target.bulk_write([write for _, write in writes], ordered=False, session=session)
        except BulkWriteError as error:
            if error.has_error_label("TransientTransactionError"):
                raise
            _, refusal = _sorted_out(error, [operation for operation, _ in writes])
            if refusal is not None:
                raise RefusedError(refusal) from error
            raise


def _chunks(parts: Iterable[Sequence[Document]]) -> Iterable[Sequence[Document]]:
    for part in parts:
        for start in range(0, len(part), OPERATIONS_PER_WRITE):
            yield part[start : start + OPERATIONS_PER_WRITE]
