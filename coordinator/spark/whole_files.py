"""Is a file of Spark there to its end? After a power cut it may be empty, end anywhere, or end in zeros.

What tells: what the place knows of it (`CheckpointFiles.read_whole`), the mark that ends a compressed stream, a length
that is written down elsewhere. Where nothing tells, a file with content counts as whole.
"""

from __future__ import annotations

import io
import json
import zipfile

from tpc.coordinator.spark.checkpoint_files import CheckpointFiles

_BLOCK = b"LZ4Block"
"""How a block of Java's LZ4 stream begins; the last one is empty."""
_BLOCK_HEADER = 21
_EMPTY = bytes(12)
"""In a block's header after name and kind: both its lengths and its checksum."""


def is_whole(files: CheckpointFiles, name: str) -> bool:
    """Whether the file is there, holds anything, and is what its place knows of it."""
    return files.read_whole(name) is not None


def is_whole_changelog(files: CheckpointFiles, name: str) -> bool:
    """The same, and its stream is at its end, where it is compressed as it is by default."""
    data = files.read_whole(name)
    if data is None:
        return False
    return not data.startswith(_BLOCK) or (data[-_BLOCK_HEADER:].startswith(_BLOCK) and data[-len(_EMPTY) :] == _EMPTY)


def is_whole_snapshot(files: CheckpointFiles, name: str) -> bool:
    """A state store's snapshot: the archive, and every file that it lists, with its length.

    Their content is not read: it may be many gigabytes.
    """
    data = files.read_whole(name)
    if data is None:
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = json.loads(archive.read("metadata").split(b"\n", 1)[1])
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError):
        return False
    folder = name.rpartition("/")[0]
    tables = {file["dfsSstFileName"]: file["sizeBytes"] for file in listed["sstFiles"]}
    logs = {file["dfsLogFileName"]: file["sizeBytes"] for file in listed.get("logFiles") or ()}
    return _has(files, f"{folder}/SSTs", tables) and _has(files, f"{folder}/logs", logs)


def _has(files: CheckpointFiles, folder: str, sizes: dict[str, int]) -> bool:
    """Whether all these files are there, with these sizes."""
    if not sizes:
        return True
    found = {entry.name: entry.size_bytes for entry in files.entries(folder) if not entry.is_folder}
    return all(found.get(name) == size for name, size in sizes.items())
