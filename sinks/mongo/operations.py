"""What one row does to one target document: the operation in the outbox.

An operation is a BSON document that needs nothing else to be applied:

- `{"insert": document, "id": name}`; `id` names the operation if the row has its own `_id`;
- `{"key": _id, "inc"|"min"|"max": {column: value}, "newest"|"first": {column: value or null}, "newest_by"|"first_by":
  column}`: `newest` and `first` are rows that are taken whole or not at all; `newest_by` and `first_by` name the
  column of such a row that orders it, if there is one.

An outbox of an earlier version may hold `"set"|"keep": {column: value}, "order": [column, value]` instead of whole
rows.

NULLs are left out of sums and bounds, which they never change. In a row that is taken, a NULL removes the field.
`guarded_writes` makes the write from an operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tpc.handles import DELIMITER, Handle
from tpc.merge import MergeHow, MergePlan
from tpc.sink import describe_row
from tpc.sinks.mongo.connection import Document, DocumentCollection
from tpc.sinks.mongo.values import hashable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pymongo.client_session import ClientSession

SECTIONS: Mapping[MergeHow, str] = {
    MergeHow.ADD: "inc",
    MergeHow.MIN: "min",
    MergeHow.MAX: "max",
}
ROWS = ("newest", "first")
WRITING = (*SECTIONS.values(), *ROWS, "set", "keep")
"""Every section of an operation whose columns are written."""


def operation_name(handle: Handle | str, run: str, number: int) -> str:
    """The name of a branch's operation; also the `_id` of a row that has none."""
    return f"{names_of(handle, run)}{number:06d}"


def names_of(handle: Handle | str, run: str) -> str:
    """The beginning of the names of a branch's operations. For earlier versions, without runs, `run` is ''."""
    return DELIMITER.join((str(handle), run, "") if run else (str(handle), ""))


def insert_operation(document: Document, name: str) -> Document:
    """The insert of a row: under its own `_id` if it has one, else under the operation's name."""
    if "_id" in document:
        return {"insert": document, "id": name}
    return {"insert": {"_id": name, **document}}


def merge_operation(key: Any, values: Mapping[str, Any], plan: MergePlan) -> Document:
    """The merge of a row into the document of its key."""
    operation: Document = {"key": key}
    for column, how in plan.columns.items():
        if how in SECTIONS and column not in (*plan.replaced, *plan.kept) and values[column] is not None:
            operation.setdefault(SECTIONS[how], {})[column] = values[column]
    for section, columns in zip(ROWS, (plan.replaced, plan.kept), strict=True):
        if columns:
            operation[section] = {column: values[column] for column in columns}
        if plan.order_by in columns:
            operation[f"{section}_by"] = plan.order_by
    return operation


def target_id(operation: Document) -> Any:
    """The `_id` of the document that an operation writes."""
    return operation["insert"]["_id"] if "insert" in operation else operation["key"]


def described(operation: Document) -> str:
    """The operation as text: its target and operators, and no other values."""
    target = describe_row({"_id": target_id(operation)}, ["_id"])
    if "insert" in operation:
        return f"insert of {target}"
    verbs = [f"{section}({', '.join(operation[section])})" for section in WRITING if operation.get(section)]
    return f"{' '.join(verbs) or 'upsert'} on {target}"


def read_targets(
    target: DocumentCollection,
    operations: Iterable[Document],
    fields: Iterable[str],
    session: ClientSession | None = None,
) -> dict[Hashable, Document]:
    """The existing target documents of `operations`, with `fields` only, by `hashable` `_id`."""
    ids = [target_id(operation) for operation in operations]
    documents = target.find({"_id": {"$in": ids}}, {"_id": 1, **dict.fromkeys(fields, 1)}, session=session)
    return {hashable(document["_id"]): document for document in documents}
