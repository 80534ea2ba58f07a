"""The records of the log: their kinds and their bytes.

One record is one slot. Its bytes are canonical JSON of an envelope (format version, slot, kind, nonce, body, and the
SHA-256 of the bytes in the slot before) and the SHA-256 over it. The checksum detects a torn or damaged record. The
nonce identifies a record whose put had an unknown outcome. The chain of hashes detects a log that was mixed from two
logs. What the records mean together is in `history.py`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum

from tpc.errors import CorruptionError, LogFormatError
from tpc.json import JSONObject, canonical, parse

FORMAT_VERSION = 2


class RecordKind(str, Enum):
    """What a record decides."""

    GENERATION = "generation"
    """A coordinator's generation begins: {pipeline, incarnation, generation, sinks, pending, query_id}, and what it
    carries of older records (`History.carried`). The first of a fork has `ancestors` (`tpc.ancestors`)."""
    INTENT = "intent"
    """An epoch is decided: the manifest."""
    REPAIR = "repair"
    """Lost branches are replaced: {epoch, generation, replacements: {old handle: branch}}."""
    COMPLETE = "complete"
    """An epoch's branches are committed or given up: {epoch, generation, floor, seconds, given_up: {handle: end}}."""
    RESOLUTION = "resolution"
    """An operator's decision: {epoch, sink, action, reason, operator, ends}."""
    REMOVAL = "removal"
    """A sink leaves the pipeline, swept: {sink, marker, swept, reason, operator}."""
    ACCEPTANCE = "acceptance"
    """A sink's rows may have other columns: {sink, columns, reason, operator}; columns null: any at the next start. Or
    the pipeline may read other sources: {sources, reason, operator} (`tpc.source_records`)."""
    MOVED = "moved"
    """The log goes on at another place, and this is its last record here: {to}; `savepoint`: the id of a savepoint."""


OF_OPERATORS = frozenset({RecordKind.RESOLUTION, RecordKind.REMOVAL, RecordKind.ACCEPTANCE})
"""The kinds that commands of operators put, and not a running coordinator."""


@dataclass(frozen=True)
class Record:
    """One slot of the log. `nonce` distinguishes two otherwise equal records of two writers.

    `after` is the SHA-256, in hexadecimal, of the bytes in the slot before; empty in the first record of a log.
    """

    slot: int
    kind: RecordKind
    nonce: str
    body: JSONObject
    after: str = ""

    def encode(self) -> bytes:
        """The record's bytes, one line of JSON."""
        envelope = {
            "format": FORMAT_VERSION,
            "slot": self.slot,
            "after": self.after,
            "kind": self.kind.value,
            "nonce": self.nonce,
            "body": self.body,
        }
        return _line(envelope, digest(canonical(envelope)))


def _line(envelope: JSONObject, checksum: str) -> bytes:
    return canonical({**envelope, "checksum": checksum}) + b"\n"


def digest(data: bytes) -> str:
    """The SHA-256 of a slot's bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


class DamagedRecordError(CorruptionError):
    """The bytes in a slot are not a record (torn, flipped, zeros)."""


def decode(data: bytes, slot: int) -> Record:
    """The inverse of `Record.encode`. Accepts exactly its bytes, since the next record holds their hash.

    Raises `DamagedRecordError` if the bytes are not a whole record, `LogFormatError` if they are whole and of another
    format, and `CorruptionError` if they were written for another slot.
    """
    try:
        envelope = parse(data)
        checksum = envelope.pop("checksum")
        whole = digest(canonical(envelope)) == checksum and _line(envelope, checksum) == data
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedRecordError(f"slot {slot} of the log holds no whole record") from error
    if not whole:
        raise DamagedRecordError(f"slot {slot} of the log does not hold the bytes that were put there")
    if envelope["format"] != FORMAT_VERSION:
        raise LogFormatError(
            f"slot {slot} of the log has format {envelope['format']}, this version of tpc reads {FORMAT_VERSION}",
        )
    if envelope["slot"] != slot:
        raise CorruptionError(
            f"slot {slot} of the log holds the record of slot {envelope['slot']}",
            remedy="a file was renamed or copied by hand: restore the log's files as they were.",
        )
    if envelope["kind"] not in [kind.value for kind in RecordKind]:
        raise LogFormatError(f"slot {slot} of the log holds a record of an unknown kind: {envelope['kind']}")
    return Record(slot, RecordKind(envelope["kind"]), envelope["nonce"], envelope["body"], envelope["after"])
