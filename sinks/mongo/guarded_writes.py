"""The write that applies an operation once: a compare and set on the guard, computed from the present target.

An operation takes effect once, however often and by whichever process it is applied. A merge writes the epoch to its
guard and later finds it there; an insert has its own name. `operations` defines the operations; `apply` and
`transactions` send the writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpc.handles import Handle
from tpc.sinks.mongo.connection import Document
from tpc.sinks.mongo.operations import ROWS
from tpc.sinks.mongo.rows_of_key import is_taken
from tpc.sinks.mongo.values import GUARDS, comparable

if TYPE_CHECKING:
    from pymongo import InsertOne, UpdateOne


@dataclass(frozen=True)
class Refusal:
    """Why an operation can never be applied, without values other than the target's key."""

    reason: str


@dataclass(frozen=True)
class Stamp:
    """The guard field of a pipeline and sink, and the epoch of a write. Only `guarded` writes set the guard."""

    guard: str
    epoch: int
    guarded: bool

    @classmethod
    def of(cls, handle: Handle, run: str = "", *, guarded: bool) -> Stamp:
        """The stamp of a branch's epoch."""
        return cls(guard_field(handle, run), handle.epoch, guarded)


def guard_field(handle: Handle, run: str = "") -> str:
    """The path of the guard in a target document. Names hold no ':', so it can stand for '.' in them.

    A guard of an earlier run under the same name says nothing about the epochs of this one.
    """
    parts = (handle.pipeline.name, str(handle.pipeline.incarnation), handle.sink, *([run] if run else []))
    return f"{GUARDS}.{'~'.join(parts).replace('.', ':')}"


def fields_read(operations: Iterable[Document]) -> set[str]:
    """The fields of the targets that `planned` needs."""
    fields = {GUARDS}
    for operation in operations:
        fields.update(operation.get("keep", ()))
        fields.update(operation.get("order", ())[:1])
        fields.update(operation.get("first", ()), operation["newest"] if "newest_by" in operation else ())
    return fields


def value_at(document: Document | None, path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def planned(
    operation: Document, stored: Document | None, stamp: Stamp
) -> InsertOne[Document] | UpdateOne | Refusal | None:
    """The write that applies `operation` to the target `stored`; None if it has been applied already."""
    if "insert" in operation:
        return _planned_insert(operation, stored, stamp)
    return _planned_merge(operation, stored, stamp)


def _planned_insert(operation: Document, stored: Document | None, stamp: Stamp) -> InsertOne[Document] | Refusal | None:
    from pymongo import InsertOne

    name = operation.get("id")
    if stored is not None:
        if name is None or value_at(stored, f"{stamp.guard}.operation") == name:
            return None
        return Refusal("a document with this _id is there already")
    document = operation["insert"]
    if name is not None and stamp.guarded:
        _, _, own = stamp.guard.partition(".")
        document = {**document, GUARDS: {own: {"operation": name}}}
    return InsertOne(document)


def _planned_merge(
    operation: Document, stored: Document | None, stamp: Stamp
) -> InsertOne[Document] | UpdateOne | Refusal | None:
    from pymongo import InsertOne, UpdateOne

    guard = f"{stamp.guard}.epoch"
    applied = value_at(stored, guard)
    if applied is not None and applied >= stamp.epoch:
        return None
    expected = {guard: applied}
    update: Document = {f"${section}": operation[section] for section in ("inc", "min", "max") if section in operation}
    sets: Document = {guard: stamp.epoch} if stamp.guarded else {}
    if "set" in operation:
        older = _is_older(operation, stored, expected)
        if isinstance(older, Refusal):
            return older
        sets.update({} if older else operation["set"])
    for column, value in operation.get("keep", {}).items():
        if value_at(stored, column) is None:
            sets[column] = value
            expected[column] = None
    removed: set[str] = set()
    for section in ROWS:
        taken = _is_taken(operation, section, stored, expected)
        if isinstance(taken, Refusal):
            return taken
        if taken:
            sets.update({name: value for name, value in operation[section].items() if value is not None})
            removed.update(name for name, value in operation[section].items() if value is None)
    if sets:
        update["$set"] = sets
    if removed and stored is not None:
        update["$unset"] = dict.fromkeys(sorted(removed), "")
    if not update:
        return InsertOne({"_id": operation["key"]}) if stored is None else None
    # $exists, since an equality would be copied into an inserted document, also one with null.
    conditions = {path: {"$exists": False} if _is_absent(stored, path) else value for path, value in expected.items()}
    return UpdateOne({"_id": operation["key"], **conditions}, update, upsert=True)


def _is_taken(operation: Document, section: str, stored: Document | None, expected: Document) -> bool | Refusal:
    """Whether a row is taken whole instead of the target's; if so, `expected` gets the order it was compared with."""
    if section not in operation:
        return False
    row, order = operation[section], operation.get(f"{section}_by")
    if section == "newest" and order is None:  # no order is stored: the later epoch wins
        return True
    there = {name: value_at(stored, name) for name in row}
    if all(value is None for value in there.values()):
        expected.update(there)
        return True
    if order is None:
        return False
    expected[order] = there[order]
    try:
        return is_taken(row, there, row, order, newest=section == "newest")
    except TypeError:
        return Refusal(f"stored {order} is a {type(there[order]).__name__}, the new one a {type(row[order]).__name__}")


def _is_older(operation: Document, stored: Document | None, expected: Document) -> bool | Refusal:
    """Whether the target holds a newer row; if not, `expected` gets its order. Of equal rows the later epoch wins."""
    if "order" not in operation:
        return False
    column, order = operation["order"]
    newest = expected[column] = value_at(stored, column)
    if newest is None:
        return False
    try:
        return order is None or bool(comparable(order) < comparable(newest))
    except TypeError:
        return Refusal(f"stored {column} is a {type(newest).__name__}, the new one a {type(order).__name__}")


def _is_absent(stored: Document | None, path: str) -> bool:
    parent, _, name = path.rpartition(".")
    inside = value_at(stored, parent) if parent else stored
    return not (isinstance(inside, dict) and name in inside)
