"""The owner entries of the MongoDB sink: one document per pipeline, incarnation and sink in `tpc_owners`.

The document is `{_id: tpc~pipeline~incarnation~sink, generation, nonce, since, run}`. The filter of one write compares
and sets it, and the majority has the write in its journal when it is acknowledged. `run` is a random id made with the
entry, and every later owner keeps it. It distinguishes a pipeline from an earlier one of the same name whose
bookkeeping was dropped and whose documents are still in the target. Entries of older versions have no `run`.
"""

from __future__ import annotations

import uuid
from typing import Any

from tpc.errors import CorruptionError
from tpc.handles import PipelineId
from tpc.sink import Owner
from tpc.sinks.mongo.connection import Document, DocumentCollection, retried
from tpc.sinks.mongo.markers import marker_id
from tpc.sinks.mongo.outbox import beginning_with
from tpc.sinks.shared.owner_entry import ANY_PIPELINE

OWNERS = "tpc_owners"
RUN_DIGITS = 12


class Owners:
    """The owner collection of one database. Every method raises PyMongo's errors."""

    def __init__(self, collection: DocumentCollection) -> None:
        self.collection = collection

    def read(self, pipeline: PipelineId, sink: str) -> Owner | None:
        """The entry of a sink of this incarnation. Raises `CorruptionError` for a document that is not one."""
        return owner_of(retried(self.collection.find_one, {"_id": marker_id(pipeline, sink)}))

    def run(self, pipeline: PipelineId, sink: str) -> str | None:
        """The run of a sink of this incarnation, '' for an entry of an older version; None without an entry."""
        document = retried(self.collection.find_one, {"_id": marker_id(pipeline, sink)}, {"run": 1})
        return None if document is None else str(document.get("run", ""))

    def read_all(self) -> dict[str, Document]:
        """The documents of every pipeline's sinks, by `marker_id`; for `owner_of`."""
        documents = retried(lambda: list(self.collection.find({"_id": {"$regex": beginning_with(ANY_PIPELINE)}})))
        return {document["_id"]: document for document in documents}

    def replace(self, pipeline: PipelineId, sink: str, owner: Owner, before: Owner | None) -> bool:
        """Replace `before`, or `owner` itself, by `owner`; False if there is another entry, or none."""
        from pymongo.errors import DuplicateKeyError

        identifier = marker_id(pipeline, sink)
        if self._updated(identifier, owner, [owner] if before is None else [before, owner]):
            return True
        if before is not None:
            return False
        try:
            retried(
                self.collection.insert_one, {"_id": identifier, **_fields(owner), "run": uuid.uuid4().hex[:RUN_DIGITS]}
            )
        except DuplicateKeyError:
            # Another's entry, or our own insert whose answer was lost. A write shows which; a read might be stale.
            return self._updated(identifier, owner, [owner])
        return True

    def _updated(self, identifier: str, owner: Owner, expected: list[Owner]) -> bool:
        terms = [{"generation": one.generation, "nonce": one.nonce} for one in expected]
        result = retried(self.collection.update_one, {"_id": identifier, "$or": terms}, {"$set": _fields(owner)})
        return result.matched_count == 1


def _fields(owner: Owner) -> dict[str, Any]:
    return {"generation": owner.generation, "nonce": owner.nonce, "since": owner.since}


def owner_of(document: Document | None) -> Owner | None:
    """The entry in a document; None if there is none. Raises `CorruptionError`."""
    if document is None:
        return None
    try:
        return Owner(int(document["generation"]), str(document["nonce"]), float(document["since"]))
    except (KeyError, TypeError, ValueError) as error:
        what = f"document {document.get('_id')!r} of {OWNERS} holds no owner entry: {error!r}"
        raise CorruptionError(what) from error
