"""What one row does to one target document: the operation that stands in the outbox, and the write made of it.

An operation is a BSON document that needs nothing else to be applied:

- `{"insert": document, "id": name}`; `id` names the operation where the row brought its own `_id`;
- `{"key": _id, "inc"|"min"|"max"|"set"|"keep": {column: value}, "order": [column, value]}`.

A write is made of an operation and of what its target holds now (`planned`): applying is a compare and set on the
guard, so that an operation takes effect once, however often and by whomever it is applied. NULLs are left out of
merges: they never change a value, and a column that is not there can be added to later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpc.handles import Handle
from tpc.merge import MergeHow, MergePlan
from tpc.sink import describe_row
from tpc.sinks.mongo.connection import Document, DocumentCollection
from tpc.sinks.mongo.values import GUARDS, comparable, hashable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pymongo import InsertOne, UpdateOne
    from pymongo.client_session import ClientSession

SECTIONS: Mapping[MergeHow, str] = {
    MergeHow.ADD: "inc",
    MergeHow.MIN: "min",
    MergeHow.MAX: "max",
    MergeHow.REPLACE: "set",
    MergeHow.KEEP: "keep",
}


@dataclass(frozen=True)
class Refusal:
    """Why an operation can never be applied, without values other than the target's key."""

    reason: str


@dataclass(frozen=True)
class Stamp:
    """Who applies: the guard field of a pipeline and sink, and the epoch. `guarded` writes leave the guard behind."""

    guard: str
    epoch: int
    guarded: bool

    @classmethod
    def of(cls, handle: Handle, *, guarded: bool) -> Stamp:
        """The stamp of a branch's epoch."""
        return cls(guard_field(handle), handle.epoch, guarded)


def guard_field(handle: Handle) -> str:
    """The path of the guard in a target document. Names hold no ':', so it can stand for '.' in them."""
    parts = (handle.pipeline.name, str(handle.pipeline.incarnation), handle.sink)
    return f"{GUARDS}.{'~'.join(parts).replace('.', ':')}"


def insert_operation(document: Document, name: str) -> Document:
    """Insert a row: under its own `_id` if it brings one, else under the operation's name."""
    if "_id" in document:
        return {"insert": document, "id": name}
    return {"insert": {"_id": name, **document}}


def merge_operation(key: Any, values: Mapping[str, Any], plan: MergePlan) -> Document:
    """Merge a row into the document of its key."""
    operation: Document = {"key": key}
    for column, how in plan.columns.items():
        if values[column] is not None:
            operation.setdefault(SECTIONS[how], {})[column] = values[column]
    order = plan.order_by
    if "set" in operation and order is not None and plan.columns.get(order) in (MergeHow.REPLACE, MergeHow.MAX):
        operation["order"] = [order, values[order]]  # written, so the stored column is the newest order
    return operation


def target_id(operation: Document) -> Any:
    """The `_id` of the document that an operation writes."""
    return operation["insert"]["_id"] if "insert" in operation else operation["key"]


def described(operation: Document) -> str:
    """The operation for people: its target and operators, no other values."""
    target = describe_row({"_id": target_id(operation)}, ["_id"])
    if "insert" in operation:
        return f"insert of {target}"
    verbs = [f"{section}({', '.join(operation[section])})" for section in SECTIONS.values() if operation.get(section)]
    return f"{' '.join(verbs) or 'upsert'} on {target}"


def read_targets(
    target: DocumentCollection,
    operations: Iterable[Document],
    fields: Iterable[str],
    session: ClientSession | None = None,
) -> dict[Hashable, Document]:
    """The target documents of `operations` that are there, with `fields` only, by `hashable` `_id`."""
    ids = [target_id(operation) for operation in operations]
    documents = target.find({"_id": {"$in": ids}}, {"_id": 1, **dict.fromkeys(fields, 1)}, session=session)
    return {hashable(document["_id"]): document for document in documents}


def fields_read(operations: Iterable[Document]) -> set[str]:
    """What `planned` needs to know of the targets."""
    fields = {GUARDS}
    for operation in operations:
        fields.update(operation.get("keep", ()))
        fields.update(operation.get("order", ())[:1])
    return fields


def value_at(document: Document | None, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def planned(
    operation: Document, stored: Document | None, stamp: Stamp
) -> InsertOne[Document] | UpdateOne | Refusal | None:
    """The write that applies `operation` to a target as `stored`; None when it has been applied."""
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
    if sets:
        update["$set"] = sets
    if not update:
        return InsertOne({"_id": operation["key"]}) if stored is None else None
    # An equality would be copied into an inserted document, a null included: hence $exists.
    conditions = {path: {"$exists": False} if _is_absent(stored, path) else value for path, value in expected.items()}
    return UpdateOne({"_id": operation["key"], **conditions}, update, upsert=True)


def _is_older(operation: Document, stored: Document | None, expected: Document) -> bool | Refusal:
    """Whether the target holds a newer row, of which `expected` then makes sure; of equals the later epoch wins."""
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
