"""The records of the log: what kinds there are, and their bytes.

One record is one slot. Its bytes are canonical JSON of an envelope (format version, slot, kind, nonce, body) and
the SHA-256 over it, so that a torn or damaged record is told from a whole one, and a record that came back from
an unknown put can be recognised by its nonce. What the records mean together stands in `history.py`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import Enum

from tpc.errors import CorruptionError
from tpc.json import JSONObject, canonical, parse

FORMAT_VERSION = 1


class RecordKind(str, Enum):
    """What a record decides."""

    GENERATION = "generation"
    """A coordinator's term begins: {pipeline, incarnation, generation, sinks, pending, query_id}, and what it takes
    along from older records (`History.carried`)."""
    INTENT = "intent"
    """An epoch is decided: the manifest."""
    REPAIR = "repair"
    """Lost branches are replaced: {epoch, generation, replacements: {old handle: branch}}."""
    COMPLETE = "complete"
    """Every branch of an epoch is committed: {epoch, generation, floor, seconds}."""
    RESOLUTION = "resolution"
    """An operator's decision: {epoch, sink, action, reason, operator}."""
    REMOVAL = "removal"
    """A sink leaves the pipeline, swept: {sink, marker, swept, reason, operator}."""


@dataclass(frozen=True)
class Record:
    """One slot of the log. `nonce` tells two otherwise equal records of two writers apart."""

    slot: int
    kind: RecordKind
    nonce: str
    body: JSONObject

    def encode(self) -> bytes:
        """The record's bytes, one line of JSON."""
        envelope = {
            "format": FORMAT_VERSION,
            "slot": self.slot,
            "kind": self.kind.value,
            "nonce": self.nonce,
            "body": self.body,
        }
        checksum = hashlib.sha256(canonical(envelope)).hexdigest()
        return canonical({**envelope, "checksum": checksum}) + b"\n"


class DamagedRecordError(CorruptionError):
    """The bytes in a slot are no whole record (torn, flipped, zeros)."""


def decode(data: bytes, slot: int) -> Record:
    """The inverse of `Record.encode`.

    Raises `DamagedRecordError` when the bytes are no whole record, and `CorruptionError` when they are whole but
    were written by a newer format or for another slot.
    """
    try:
        envelope = parse(data)
        checksum = envelope.pop("checksum")
        whole = hashlib.sha256(canonical(envelope)).hexdigest() == checksum
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise DamagedRecordError(f"slot {slot} of the log holds no whole record") from error
    if not whole:
        raise DamagedRecordError(f"the checksum of slot {slot} of the log does not match its bytes")
    if envelope["format"] != FORMAT_VERSION:
        raise CorruptionError(
            f"slot {slot} of the log has format {envelope['format']}, this version reads {FORMAT_VERSION}",
            remedy="use the version of tpc that wrote it, or a newer one.",
        )
    if envelope["slot"] != slot:
        raise CorruptionError(
            f"slot {slot} of the log holds the record of slot {envelope['slot']}",
            remedy="a file was renamed or copied by hand: put the log's files back as they were.",
        )
    return Record(slot, RecordKind(envelope["kind"]), envelope["nonce"], envelope["body"])
