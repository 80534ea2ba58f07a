"""The checksum files that Hadoop keeps beside the files of a local file system, `.NAME.crc`."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

_MAGIC = b"crc\0"
_HEADER = 8


def checksum_file(path: Path) -> Path:
    """Where Hadoop keeps the checksums of a file."""
    return path.with_name(f".{path.name}.crc")


def agrees(path: Path, data: bytes) -> bool:
    """Whether `data` is what the checksum file of `path` says, if it has one.

    Hadoop takes no notice of a checksum file that does not begin as one; neither does this.
    """
    try:
        sums = checksum_file(path).read_bytes()
    except FileNotFoundError:
        return True
    if not sums.startswith(_MAGIC) or len(sums) < _HEADER:
        return True
    (size,) = struct.unpack_from(">i", sums, len(_MAGIC))
    if size <= 0:
        return False
    of_chunks = (zlib.crc32(data[start : start + size]) for start in range(0, len(data), size))
    return sums[_HEADER:] == b"".join(struct.pack(">I", each) for each in of_chunks)
