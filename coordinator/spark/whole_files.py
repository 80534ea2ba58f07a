"""Is a file of Spark there to its end? After a power cut it may be empty, end anywhere, or end in zeros.

What tells: a checksum file beside it (Hadoop's `.NAME.crc`), the mark that ends a compressed stream, a length that is
written down elsewhere. Where nothing tells, a file with content counts as whole.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path

_CHECKSUM_MAGIC = b"crc\0"
_CHECKSUM_HEADER = 8
_BLOCK = b"LZ4Block"
"""How a block of Java's LZ4 stream begins; the last one is empty."""
_BLOCK_HEADER = 21
_EMPTY = bytes(12)
"""In a block's header after name and kind: both its lengths and its checksum."""


def is_whole(path: Path) -> bool:
    """Whether the file is there, holds anything, and is what its checksum file says."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return False
    return bool(data.strip(b"\0")) and _agrees(checksum_file(path), data)


def is_whole_changelog(path: Path) -> bool:
    """The same, and its stream is at its end, where it is compressed as it is by default."""
    if not is_whole(path):
        return False
    data = path.read_bytes()
    return not data.startswith(_BLOCK) or (data[-_BLOCK_HEADER:].startswith(_BLOCK) and data[-len(_EMPTY) :] == _EMPTY)


def is_whole_snapshot(path: Path) -> bool:
    """A state store's snapshot: the archive, and every file that it lists, with its length.

    Their content is not read: it may be many gigabytes.
    """
    if not is_whole(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            listed = json.loads(archive.read("metadata").split(b"\n", 1)[1])
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError):
        return False
    tables = [(path.parent / "SSTs" / file["dfsSstFileName"], file["sizeBytes"]) for file in listed["sstFiles"]]
    logs = [(path.parent / "logs" / file["dfsLogFileName"], file["sizeBytes"]) for file in listed.get("logFiles", ())]
    return all(file.is_file() and file.stat().st_size == size for file, size in [*tables, *logs])


def checksum_file(path: Path) -> Path:
    """Where Hadoop keeps the checksums of a file."""
    return path.with_name(f".{path.name}.crc")


def _agrees(checksums: Path, data: bytes) -> bool:
    """Hadoop takes no notice of a checksum file that does not begin as one; neither does this."""
    try:
        sums = checksums.read_bytes()
    except FileNotFoundError:
        return True
    if not sums.startswith(_CHECKSUM_MAGIC) or len(sums) < _CHECKSUM_HEADER:
        return True
    (size,) = struct.unpack_from(">i", sums, len(_CHECKSUM_MAGIC))
    if size <= 0:
        return False
    of_chunks = (zlib.crc32(data[start : start + size]) for start in range(0, len(data), size))
    return sums[_CHECKSUM_HEADER:] == b"".join(struct.pack(">I", each) for each in of_chunks)
