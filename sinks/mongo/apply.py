"""Applies the operations of decided branches to the target: in one transaction, or guarded one by one.

Both ways read the targets, compute the writes that are still missing (`guarded_writes.planned`) and send them in
unordered bulks. In guarded mode the marker records each finished chunk (`progress`). A duplicate key on `_id` means
that another process wrote the target meanwhile. The target is then read again, and only a guard with this epoch counts
as applied. An operation that can never be applied is a `Refusal`. The other operations are applied nevertheless, and a
later apply finishes the rest. After `MAX_NOT_APPLIED` refusals a guarded apply stops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpc.errors import TransientError
from tpc.sinks.mongo.connection import Document, DocumentCollection, retried
from tpc.sinks.mongo.guarded_writes import Refusal, Stamp, fields_read, planned
from tpc.sinks.mongo.operations import described, read_targets, target_id
from tpc.sinks.mongo.progress import Progress, Step
from tpc.sinks.mongo.transactions import RefusedError
from tpc.sinks.mongo.values import hashable

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession
    from pymongo.errors import BulkWriteError

OPERATIONS_PER_WRITE = 500
"""The size of a chunk: so many operations may be under way when a process dies. It may not get less in a later version,
which must be able to finish an interrupted chunk of an earlier one."""
MAX_NOT_APPLIED = 2_000
"""After so many refused operations of a branch the rest is not tried. Each is listed in the marker, whose size is
limited (16 MB), and a marker that cannot be written could not be resolved either."""
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
"""MongoDB's codes of write errors that repeat whenever the same operation is applied to the same target."""


Numbered = Mapping[int, Document]
"""Operations by their number in the branch."""

UNTOUCHED = Progress()


def apply_guarded(
    target: DocumentCollection,
    parts: Iterable[Sequence[Document]],
    stamp: Stamp,
    progress: Progress | None = None,
    record: Callable[[Step], Progress | None] | None = None,
) -> Refusal | None:
    """Apply every operation that is possible and not yet applied; returns the first impossible one, if any.

    `progress` is what other processes have recorded, None if none has begun. `record` gets the result of each chunk. It
    returns the present progress, with that of other processes, or None to stop, since another process has finished.
    Raises PyMongo's errors and `TransientError` (other processes keep changing the targets).
    """
    done = UNTOUCHED if progress is None else progress
    first: Refusal | None = None
    are_removed, under_way = False, progress is not None
    for chunk in _chunks(parts):
        applied = {number: operation for number, operation in chunk.items() if done.is_applied(number)}
        left = {number: operation for number, operation in chunk.items() if number not in applied}
        are_removed = are_removed or (under_way and bool(_absent(target, applied)))
        if not left:
            continue
        # The first chunk that is not recorded may have been written: a crash may have come before its record.
        suspected = under_way and are_removed and max(left) >= done.operations
        asked = {n: o for n, o in left.items() if n in done.in_doubt or (suspected and n >= done.operations)}
        under_way = under_way and max(left) < done.operations
        in_doubt = _absent(target, asked)
        refusals = _apply_chunk(target, {n: o for n, o in left.items() if n not in in_doubt}, stamp)
        refusals |= {n: Refusal(f"{described(o)}: {REMOVED}") for n, o in in_doubt.items()}
        first = first or next(iter(refusals.values()), None)
        step = Step(tuple(left), frozenset(refusals.keys() - in_doubt.keys()), frozenset(in_doubt))
        if record is not None:
            now = record(step)
            if now is None:
                return first
            done = now
            if first is not None and len(done.refused) + len(done.in_doubt) > MAX_NOT_APPLIED:
                return first
    return first


REMOVED = (
    "not there, and it is unknown whether it was applied: documents of this epoch were removed from the target before"
    " the epoch was complete, and a commit was interrupted; ask who removes them whether this one was among them"
)


def _absent(target: DocumentCollection, operations: Numbered) -> dict[int, Document]:
    """The operations whose document is not in the target."""
    if not operations:
        return {}
    stored = retried(read_targets, target, operations.values(), ())
    return {number: one for number, one in operations.items() if hashable(target_id(one)) not in stored}


def _apply_chunk(target: DocumentCollection, chunk: Numbered, stamp: Stamp) -> dict[int, Refusal]:
    """Apply what is possible; returns the other operations with the reason."""
    from pymongo.errors import BulkWriteError

    refusals: dict[int, Refusal] = {}
    for _ in range(ROUNDS):
        stored = retried(read_targets, target, chunk.values(), fields_read(chunk.values()))
        writes: dict[int, Any] = {}
        for number, operation in chunk.items():
            write = planned(operation, stored.get(hashable(target_id(operation))), stamp)
            if isinstance(write, Refusal):
                refusals[number] = Refusal(f"{described(operation)}: {write.reason}")
            elif write is not None:
                writes[number] = write
        if not writes:
            return refusals
        try:
            target.bulk_write(list(writes.values()), ordered=False)
        except BulkWriteError as error:
            chunk, refused = _sorted_out(error, {number: chunk[number] for number in writes})
            refusals |= refused
        else:
            return refusals
        if not chunk:
            return refusals
    raise TransientError(
        f"other writers changed the targets of {len(chunk)} operations {ROUNDS} times, the first is "
        f"{described(next(iter(chunk.values())))}"
    )


def _sorted_out(error: BulkWriteError, operations: Numbered) -> tuple[dict[int, Document], dict[int, Refusal]]:
    """The operations to try again, and those that can never be applied. Raises `error` for any other failure."""
    numbers = list(operations)
    again: dict[int, Document] = {}
    refusals: dict[int, Refusal] = {}
    failures = (error.details or {}).get("writeErrors", [])
    if not failures or (error.details or {}).get("writeConcernErrors"):
        raise error
    for failure in failures:
        number = numbers[failure["index"]]
        if _is_overtaken(failure):
            again[number] = operations[number]
        elif failure["code"] in REFUSALS:
            refusals[number] = Refusal(f"{described(operations[number])}: {_reason(failure)}")
        else:
            raise error
    return again, refusals


def _is_overtaken(failure: Mapping[str, Any]) -> bool:
    """Whether the duplicate key is on `_id`: then the target has changed since it was read."""
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
    target: DocumentCollection,
    parts: Iterable[Sequence[Document]],
    stamp: Stamp,
    session: ClientSession,
    done: Progress = UNTOUCHED,
) -> None:
    """Apply every operation inside `session`'s transaction. Raises `RefusedError`, or PyMongo's errors.

    `done` is what a guarded commit has recorded before; it is skipped.
    """
    from pymongo.errors import BulkWriteError

    for chunk in _chunks(parts):
        left = {number: operation for number, operation in chunk.items() if not done.is_applied(number)}
        stored = read_targets(target, left.values(), fields_read(left.values()), session) if left else {}
        writes: dict[int, Any] = {}
        for number, operation in left.items():
            found = stored.get(hashable(target_id(operation)))
            write = planned(operation, found, stamp)
            if found is None and number in done.in_doubt:
                write = Refusal(REMOVED)
            if isinstance(write, Refusal):
                raise RefusedError(Refusal(f"{described(operation)}: {write.reason}"))
            if write is not None:
                writes[number] = write
        if not writes:
            continue
        try:
            target.bulk_write(list(writes.values()), ordered=False, session=session)
        except BulkWriteError as error:
            if error.has_error_label("TransientTransactionError"):
                raise
            _, refusals = _sorted_out(error, {number: left[number] for number in writes})
            if refusals:
                raise RefusedError(next(iter(refusals.values()))) from error
            raise


def _chunks(parts: Iterable[Sequence[Document]]) -> Iterator[dict[int, Document]]:
    """The operations in chunks for one write each, numbered within the branch."""
    begin = 0
    for part in parts:
        for start in range(0, len(part), OPERATIONS_PER_WRITE):
            chunk = part[start : start + OPERATIONS_PER_WRITE]
            yield dict(enumerate(chunk, begin))
            begin += len(chunk)
