"""A state's change as a message: the key, and a value that begins with its expiry; without a value it is a tombstone.

A key's partition is a function of its bytes and of the number of partitions at the begin of the changelog.
"""

from __future__ import annotations

import struct
import zlib

from tpc.changelog import Row
from tpc.errors import CorruptionError

_FOR_EVER, _EXPIRES = b"\x01", b"\x02"
_TIME = struct.Struct(">q")


def value_of(row: Row) -> bytes | None:
    """The message's value."""
    if row.value is None:
        return None
    if row.expires_ms is None:
        return _FOR_EVER + row.value
    return _EXPIRES + _TIME.pack(row.expires_ms) + row.value


def row_of(key: bytes | None, value: bytes | None) -> Row:
    """The inverse. Raises `CorruptionError` for a message that this module did not write."""
    if key is None:
        raise CorruptionError("a message has no key")
    if value is None:
        return Row(key, None, None)
    if value[:1] == _FOR_EVER:
        return Row(key, value[1:], None)
    if value[:1] == _EXPIRES and len(value) > _TIME.size:
        return Row(key, value[1 + _TIME.size :], _TIME.unpack_from(value, 1)[0])
    raise CorruptionError(f"a message is not a change of a state: {value[:20]!r}")


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, which never changes."""
    return zlib.crc32(key) % partitions
