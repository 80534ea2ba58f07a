from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.builders import manifest
from tpc.errors import CorruptionError, LogFormatError
from tpc.json import JSONObject, canonical
from tpc.records import FORMAT_VERSION, DamagedRecordError, Record, RecordKind, decode, digest

RECORD = Record(5, RecordKind.INTENT, "nonce", manifest(3).to_json())


def test_a_record_round_trips_through_its_bytes() -> None:
    assert decode(RECORD.encode(), 5) == RECORD


def test_a_record_cut_at_any_byte_is_damaged_or_whole() -> None:
    data = RECORD.encode()
    for length in range(len(data)):
        with pytest.raises(DamagedRecordError):
            decode(data[:length], 5)


@given(st.integers(0, len(RECORD.encode()) - 1), st.integers(0, 7))
def test_a_flipped_bit_never_gives_a_record(position: int, bit: int) -> None:
    data = bytearray(RECORD.encode())
    data[position] ^= 1 << bit
    with pytest.raises(DamagedRecordError):
        decode(bytes(data), 5)


@pytest.mark.parametrize("end", [b"", b" ", b"\r\n", b"\n\n"])
def test_a_record_whose_line_ends_otherwise_is_damaged(end: bytes) -> None:
    """As JSON it is the same; the record after it would be chained to bytes that a mirror does not hold."""
    with pytest.raises(DamagedRecordError):
        decode(RECORD.encode().removesuffix(b"\n") + end, 5)


def test_zeros_are_damaged() -> None:
    with pytest.raises(DamagedRecordError):
        decode(bytes(len(RECORD.encode())), 5)


def test_a_record_of_an_unknown_kind_was_written_by_another_version() -> None:
    envelope: JSONObject = {"format": FORMAT_VERSION, "slot": 5, "kind": "new", "nonce": "n", "body": {}, "after": ""}
    data = canonical({**envelope, "checksum": digest(canonical(envelope))}) + b"\n"
    with pytest.raises(LogFormatError, match="slot 5 of the log holds a record of an unknown kind: new"):
        decode(data, 5)


def test_a_record_in_another_slot_is_corruption() -> None:
    with pytest.raises(CorruptionError, match="slot 6 of the log holds the record of slot 5"):
        decode(RECORD.encode(), 6)
