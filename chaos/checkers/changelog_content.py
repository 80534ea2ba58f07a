"""What a state's changelog says that the state holds, read as the messages that they are, without the library."""

from __future__ import annotations

import struct

from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.service_state import Row

_FOR_EVER, _EXPIRES = b"\x01", b"\x02"
_TIME = struct.Struct(">q")


def read_changelog(servers: str, topic: str) -> list[Row]:
    """The newest committed value of each key; one without a value is gone. Raises what `read_topic` does.

    A key is always in the same partition, so that the order of each partition is that of its changes.
    """
    newest: dict[bytes, bytes | None] = {}
    for record in read_topic(servers, topic):
        newest[record.key or b""] = record.value
    return [_row(key, value) for key, value in newest.items() if value is not None]


def _row(key: bytes, value: bytes) -> Row:
    """Raises `ValueError` for what is no change of this version."""
    if value[:1] == _FOR_EVER:
        return (key, value[1:], None)
    if value[:1] == _EXPIRES:
        return (key, value[1 + _TIME.size :], int(_TIME.unpack_from(value, 1)[0]))
    raise ValueError(f"a changelog holds a value of another version: {value[:1]!r}")
