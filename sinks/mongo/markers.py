"""The markers: one document per pipeline, incarnation and sink that distinguishes committed from never prepared.

The document is `{_id: tpc~pipeline~incarnation~sink, epoch, handles, base, begun, progress, given_up, ended}`:

- `epoch`, `handles`: the newest committed epoch (-1 before the first) and its branches;
- `begun`, `progress`: branches that a guarded commit may have applied in part, and its progress with each;
- `given_up`, `ended`: branches that an operator has given up, which can no longer be begun or marked as committed; and
  the outcome of each, `{handle, end}`;
- `base`: a random id made with the document, before the first epoch. Every branch records it. If a branch finds another
  base, or no document, then markers were removed, and a missing entry proves nothing.

A branch is either begun before it is given up, or never: both are changes of this one document. Readers who need one
view over several systems read the epoch here. The collection also holds the installation's uuid.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpc.errors import TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, GivenUp
from tpc.sinks.mongo.connection import Document, DocumentCollection, retried
from tpc.sinks.mongo.progress import Progress, Step, forgotten, progress_of

if TYPE_CHECKING:
    from pymongo.client_session import ClientSession

MARKERS = "tpc_markers"
INSTALLATION = "installation"
BASE_DIGITS = 12
NO_EPOCH = -1
"""The newest epoch of a sink that has committed none."""


@dataclass(frozen=True)
class EpochMarker:
    """The newest committed epoch and its committed branches; what was begun, given up and ended since."""

    epoch: int
    handles: frozenset[str]
    begun: frozenset[str] = frozenset()
    given_up: frozenset[str] = frozenset()
    ended: Mapping[str, GivenUp] = field(default_factory=dict)
    progress: Mapping[str, Progress] = field(default_factory=dict)
    base: str = ""

    def settles(self, handle: Handle) -> bool:
        """Whether this decided branch is committed: epochs are committed one after the other."""
        return handle.epoch < self.epoch or (handle.epoch == self.epoch and str(handle) in self.handles)


class Markers:
    """The marker collection of one database. Every method raises PyMongo's errors."""

    def __init__(self, collection: DocumentCollection) -> None:
        self.collection = collection

    def installation(self) -> str:
        """The uuid of this database's installation; the first call creates it."""
        self.collection.update_one({"_id": INSTALLATION}, {"$setOnInsert": {"uuid": str(uuid.uuid4())}}, upsert=True)
        installation = self.collection.find_one({"_id": INSTALLATION})
        return str(installation["uuid"]) if installation else ""

    def read(self, pipeline: PipelineId, sink: str, session: ClientSession | None = None) -> EpochMarker | None:
        """The marker of a sink of this incarnation; None if it never committed."""
        wanted = {"_id": marker_id(pipeline, sink)}
        # Within a transaction there is no retry here: the transaction is repeated after a broken connection.
        document = (
            self.collection.find_one(wanted, session=session) if session else retried(self.collection.find_one, wanted)
        )
        return None if document is None else _marker(document)

    def read_with_base(self, pipeline: PipelineId, sink: str) -> EpochMarker:
        """The marker of a sink of this incarnation; creates the marker or its base if it is missing."""
        found = self.read(pipeline, sink)
        if found is not None and found.base:
            return found
        identifier = marker_id(pipeline, sink)
        self._make(identifier)
        return self._changed(identifier, {"_id": identifier, "base": {"$exists": False}}, {"$set": {"base": _base()}})

    def read_all(self, prefix: str) -> dict[str, EpochMarker]:
        """The markers whose `_id` begins so, e.g. with a pipeline's `name_prefix`, by `marker_id`."""
        wanted = {"_id": {"$regex": "^" + re.escape(prefix)}}
        documents = retried(lambda: list(self.collection.find(wanted)))
        return {document["_id"]: _marker(document) for document in documents}

    def begin(self, seen: EpochMarker | None, handles: Iterable[Handle]) -> EpochMarker | None:
        """Note that branches may be applied in part from now on, if the marker is still at the epoch `seen`.

        Returns the marker before that, with what other processes have begun and done; None if it is at another epoch,
        or if one of the branches was given up.
        """
        beginning = list(handles)
        identifier, names = marker_id_of(beginning[0]), sorted(map(str, beginning))
        if seen is None:
            self._make(identifier)
        as_seen = {
            "_id": identifier,
            "epoch": NO_EPOCH if seen is None else seen.epoch,
            "given_up": {"$nin": names},
        }
        change = {"$addToSet": {"begun": {"$each": names}}}
        before = retried(self.collection.find_one_and_update, as_seen, change)
        return None if before is None else _marker(before)

    def record(self, handle: Handle, step: Step) -> EpochMarker | None:
        """Record what was applied of a begun branch; returns the marker after that.

        None, and nothing is written, if the branch is settled or given up meanwhile.
        """
        from pymongo import ReturnDocument

        name = str(handle)
        as_begun = {"_id": marker_id_of(handle), "begun": name, "given_up": {"$ne": name}}
        after: Document | None = None
        for change in step.changes(handle):
            update = retried(
                self.collection.find_one_and_update, as_begun, change, return_document=ReturnDocument.AFTER
            )
            if update is None:
                return None
            after = update
        return None if after is None else _marker(after)

    def advance(
        self,
        seen: EpochMarker | None,
        committables: Iterable[Committable],
        session: ClientSession | None = None,
    ) -> bool:
        """Mark branches of one epoch as committed if the marker is still as `seen`; False if it is not.

        Also False if one of them was given up. Entries of earlier epochs (begun, given up, ended) are removed.
        """
        from pymongo.errors import DuplicateKeyError

        handles = [committable.handle for committable in committables]
        first = handles[0]
        identifier, names = marker_id(first.pipeline, first.sink), sorted(map(str, handles))
        if seen is None:
            try:
                made = {"_id": identifier, "epoch": first.epoch, "handles": names, "base": _base()}
                self.collection.insert_one(made, session=session)
            except DuplicateKeyError:
                if session is not None:
                    raise
                return False
            return True
        # Entries of this epoch stay: other branches of it may be begun or given up, such as a refused one.
        known = seen.begun | seen.given_up | seen.ended.keys() | seen.progress.keys()
        past = [name for name in known if Handle.parse(name).epoch < first.epoch]
        change: Document = {"$set": {"epoch": first.epoch, "handles": names}}
        if seen.epoch == first.epoch:
            change = {"$addToSet": {"handles": {"$each": names}}}
        change["$pullAll"] = {"begun": sorted([*past, *names]), "given_up": sorted(past)}
        change["$pull"] = {"ended": {"handle": {"$in": sorted(past)}}}
        # Other processes may have recorded progress since `seen`; for these branches it is removed in any case.
        change["$unset"] = forgotten({*past, *names})
        as_seen = {"_id": identifier, "epoch": seen.epoch, "given_up": {"$nin": names}}
        return self.collection.update_one(as_seen, change, session=session).matched_count == 1

    def give_up(self, handles: Iterable[Handle]) -> EpochMarker:
        """Block these branches of a sink: no process can begin them or mark them any more; the marker after that."""
        given_up = list(handles)
        identifier, names = marker_id_of(given_up[0]), sorted(map(str, given_up))
        self._make(identifier)
        return self._changed(identifier, {"_id": identifier}, {"$addToSet": {"given_up": {"$each": names}}})

    def end(self, ends: Mapping[Handle, GivenUp]) -> EpochMarker:
        """Store the outcome of given-up branches, unless one of them has an outcome already; the marker after that."""
        identifier = marker_id_of(next(iter(ends)))
        as_seen = {"_id": identifier, "ended.handle": {"$nin": sorted(map(str, ends))}}
        written = [{"handle": str(handle), "end": end.value} for handle, end in ends.items()]
        return self._changed(identifier, as_seen, {"$push": {"ended": {"$each": written}}})

    def _make(self, identifier: str) -> None:
        """Create the marker of a sink that has committed nothing, unless it exists."""
        from pymongo.errors import DuplicateKeyError

        with suppress(DuplicateKeyError):
            made = {"_id": identifier, "epoch": NO_EPOCH, "handles": [], "base": _base()}
            retried(self.collection.insert_one, made)

    def _changed(self, identifier: str, as_seen: Document, change: Document) -> EpochMarker:
        retried(self.collection.update_one, as_seen, change)
        document = retried(self.collection.find_one, {"_id": identifier})
        if document is None:
            raise TransientError(f"the marker {identifier} was removed while it was written")
        return _marker(document)


def marker_id(pipeline: PipelineId, sink: str) -> str:
    """The `_id` of a sink's marker."""
    return f"{pipeline.prefix}{sink}"


def marker_id_of(handle: Handle) -> str:
    """The `_id` of the marker of a branch's sink."""
    return marker_id(handle.pipeline, handle.sink)


def _marker(document: Document) -> EpochMarker:
    return EpochMarker(
        document["epoch"],
        frozenset(document["handles"]),
        frozenset(document.get("begun", ())),
        frozenset(document.get("given_up", ())),
        {ended["handle"]: GivenUp(ended["end"]) for ended in document.get("ended", ())},
        progress_of(document),
        str(document.get("base", "")),
    )


def _base() -> str:
    return uuid.uuid4().hex[:BASE_DIGITS]
