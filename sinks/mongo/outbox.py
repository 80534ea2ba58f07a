"""The outbox: the operations of prepared branches, in documents of at most 8 MB, until they are applied.

A part is `{_id: handle~sequence, operations: binary, count, sha256}`. The binary is the BSON documents of the
operations one after the other, so that the checksum covers exactly the written bytes. Parts are read by the handles in
committables, never by epoch: so the parts of a superseded task attempt are never applied.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpc.errors import CorruptionError, TransientError
from tpc.handles import DELIMITER, Handle
from tpc.sink import Committable
from tpc.sinks.mongo.connection import Document, DocumentCollection, retried

OUTBOX = "tpc_outbox"
MAX_PART_BYTES = 8 * 1024 * 1024
MAX_OPERATION_BYTES = 16 * 1024 * 1024 - 64 * 1024
"""MongoDB's limit for a document, minus the space for the outbox document around it and for the guard."""


@dataclass
class PartBuffer:
    """Encoded operations for one part."""

    operations: list[Document] = field(default_factory=list)
    encoded: list[bytes] = field(default_factory=list)
    size_bytes: int = 0

    def has_room(self, size_bytes: int) -> bool:
        """Whether an operation of this size fits; an empty part takes any operation."""
        return not self.encoded or self.size_bytes + size_bytes <= MAX_PART_BYTES

    def add(self, operation: Document, encoded: bytes) -> None:
        """Take one more operation."""
        self.operations.append(operation)
        self.encoded.append(encoded)
        self.size_bytes += len(encoded)


class Outbox:
    """The outbox collection of one database. Every method raises PyMongo's errors."""

    def __init__(self, collection: DocumentCollection) -> None:
        self.collection = collection

    def put(self, handle: Handle, sequence: int, part: PartBuffer) -> str:
        """Make a part durable; returns its SHA-256. An existing part with the same bytes counts as written."""
        from pymongo.errors import DuplicateKeyError

        operations = b"".join(part.encoded)
        digest = hashlib.sha256(operations).hexdigest()
        document = {
            "_id": part_id(handle, sequence),
            "operations": operations,
            "count": len(part.encoded),
            "sha256": digest,
        }
        try:
            retried(self.collection.insert_one, document)
        except DuplicateKeyError:
            stored = retried(self.collection.find_one, {"_id": document["_id"]}, {"sha256": 1})
            if stored is None or stored.get("sha256") != digest:
                raise CorruptionError(
                    f"the outbox holds other operations under {document['_id']}",
                    epoch=handle.epoch,
                    sink=handle.sink,
                    remedy="a handle is never used twice: look for a second copy of this pipeline.",
                ) from None
        return digest

    def state(self, committable: Committable) -> str | None:
        """Why a prepared branch cannot be applied: 'missing' or 'damaged'; None if all of it is there, unchanged."""
        parts, damaged, whole = 0, False, hashlib.sha256()
        for part in self._parts(committable):
            parts += 1
            digest = hashlib.sha256(part["operations"]).hexdigest()
            damaged |= digest != part["sha256"]
            whole.update(bytes.fromhex(digest))
        if parts < committable.data["parts"]:
            return "missing"
        return "damaged" if damaged or whole.hexdigest() != committable.data["sha256"] else None

    def operations(self, committable: Committable) -> Iterator[list[Document]]:
        """The operations of a branch, part by part in the order in which they were written.

        Raises `TransientError` if a part was removed since `state` was read. Without the part the branch would be
        applied in part, with other numbers for its operations, and then be marked as committed.
        """
        parts = self._parts(committable)
        for identifier in part_ids(committable):
            part = next(parts, None)
            if part is None or part["_id"] != identifier:
                raise TransientError(f"the outbox document {identifier} was removed while its branch was applied")
            yield _decoded(part)

    def operations_left(self, committable: Committable) -> Iterator[list[Document]]:
        """The operations in the parts that still exist."""
        yield from map(_decoded, self._parts(committable))

    def _parts(self, committable: Committable) -> Iterator[Document]:
        """The parts, one at a time, since a part may have 8 MB."""
        for identifier in part_ids(committable):
            part = retried(self.collection.find_one, {"_id": identifier})
            if part is not None:
                yield part

    def delete(self, committables: Iterable[Committable], session: Any = None) -> None:
        """Remove the parts of branches that have been applied."""
        ids = [identifier for committable in committables for identifier in part_ids(committable)]
        if ids:
            self.collection.delete_many({"_id": {"$in": ids}}, session=session)

    def delete_branches(self, handles: Sequence[str]) -> None:
        """Remove every part of these branches, however many there are."""
        from pymongo import DeleteMany

        if handles:
            requests = [DeleteMany({"_id": {"$regex": beginning_with(h + DELIMITER)}}) for h in handles]
            retried(self.collection.bulk_write, requests, ordered=False)

    def branches(self, prefix: str) -> list[str]:
        """The names of the branches that have parts here and begin with `prefix`, e.g. a pipeline's `name_prefix`."""
        wanted = {"_id": {"$regex": beginning_with(prefix)}}
        identifiers = retried(lambda: [part["_id"] for part in self.collection.find(wanted, {"_id": 1})])
        return sorted({identifier.rpartition(DELIMITER)[0] for identifier in identifiers})


def _decoded(part: Document) -> list[Document]:
    from bson import CodecOptions, decode_all

    options: CodecOptions[Document] = CodecOptions(tz_aware=True)
    return decode_all(part["operations"], options)


def part_id(handle: Handle | str, sequence: int) -> str:
    """The `_id` of a part."""
    return f"{handle}{DELIMITER}{sequence:06d}"


def part_ids(committable: Committable) -> list[str]:
    """The `_id`s of all parts of a prepared branch."""
    return [part_id(committable.resource, sequence) for sequence in range(committable.data["parts"])]


def beginning_with(prefix: str) -> str:
    """An anchored expression, for which MongoDB uses the `_id` index."""
    return "^" + re.escape(prefix)
