"""The markers: one document per pipeline, incarnation and sink that tells committed from never prepared.

`{_id: tpc~pipeline~incarnation~sink, epoch, handles}`: the newest committed epoch and its branches. Readers who
need one view over several systems read the epoch here. The collection also holds the installation's uuid.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpc.handles import Handle, PipelineId
from tpc.sink import Committable
from tpc.sinks.mongo.connection import Document, DocumentCollection, retried

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession

MARKERS = "tpc_markers"
INSTALLATION = "installation"


@dataclass(frozen=True)
class EpochMarker:
    """The newest committed epoch, and its branches that are committed."""

    epoch: int
    handles: frozenset[str]

    def settles(self, handle: Handle) -> bool:
        """Whether this branch, which a decision names, is committed: epochs commit one after the other."""
        return handle.epoch < self.epoch or (handle.epoch == self.epoch and str(handle) in self.handles)


class Markers:
    """The marker collection of one database. Every method raises PyMongo's errors."""

    def __init__(self, collection: DocumentCollection) -> None:
        self.collection = collection

    def installation(self) -> str:
        """The uuid of this database's installation; made by the first who asks."""
        self.collection.update_one({"_id": INSTALLATION}, {"$setOnInsert": {"uuid": str(uuid.uuid4())}}, upsert=True)
        installation = self.collection.find_one({"_id": INSTALLATION})
        return str(installation["uuid"]) if installation else ""

    def read(self, pipeline: PipelineId, sink: str, session: ClientSession | None = None) -> EpochMarker | None:
        """The marker of a sink of this incarnation; None if it never committed."""
        wanted = {"_id": marker_id(pipeline, sink)}
        # In a transaction a broken connection is for the transaction to repeat.
        document = (
            self.collection.find_one(wanted, session=session) if session else retried(self.collection.find_one, wanted)
        )
        return None if document is None else _marker(document)

    def read_all(self, prefix: str) -> dict[str, EpochMarker]:
        """The markers whose `_id` begins so, e.g. with a pipeline's `name_prefix`, by `marker_id`."""
        wanted = {"_id": {"$regex": "^" + re.escape(prefix)}}
        documents = retried(lambda: list(self.collection.find(wanted)))
        return {document["_id"]: _marker(document) for document in documents}

    def advance(
        self,
        seen: EpochMarker | None,
        committables: Iterable[Committable],
        session: ClientSession | None = None,
    ) -> bool:
        """Mark branches of one epoch as committed if the marker is still as `seen`; False if it is not."""
        from pymongo.errors import DuplicateKeyError

        handles = [committable.handle for committable in committables]
        first = handles[0]
        identifier, names = marker_id(first.pipeline, first.sink), sorted(map(str, handles))
        if seen is None:
            try:
                self.collection.insert_one({"_id": identifier, "epoch": first.epoch, "handles": names}, session=session)
            except DuplicateKeyError:
                if session is not None:
                    raise
                return False
            return True
        change: Document = {"$set": {"epoch": first.epoch, "handles": names}}
        if seen.epoch == first.epoch:
            change = {"$addToSet": {"handles": {"$each": names}}}
        return (
            self.collection.update_one({"_id": identifier, "epoch": seen.epoch}, change, session=session).matched_count
            == 1
        )


def marker_id(pipeline: PipelineId, sink: str) -> str:
    """The `_id` of a sink's marker."""
    return f"{pipeline.prefix}{sink}"


def marker_id_of(handle: Handle) -> str:
    """The `_id` of the marker of a branch's sink."""
    return marker_id(handle.pipeline, handle.sink)


def _marker(document: Document) -> EpochMarker:
    return EpochMarker(document["epoch"], frozenset(document["handles"]))
