"""The files of a checkpoint that is copied whole: durable at their new place, read back, and compared."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tpc.coordinator.operations.savepoints.copying import copy_file, sync_directories
from tpc.errors import ConfigurationError, CorruptionError
from tpc.support import durable_files

_CHUNK_BYTES = 1 << 20
_OURS = "tpc"
"""The folder in a checkpoint that is this library's."""
_UNFINISHED = ".tmp"
"""How the names of files end that Spark has not finished."""


@dataclass(frozen=True)
class Seen:
    """A file as it was found; who writes to it changes one of these."""

    size_bytes: int
    changed_at_ns: int


def files_of(checkpoint: Path) -> dict[str, Seen]:
    """All files of a checkpoint of Spark's, by their paths from there. Raises `ConfigurationError`."""
    found = {}
    try:
        for place, below, names in os.walk(checkpoint, onerror=_raise):
            if Path(place) == checkpoint:
                below[:] = [name for name in below if name != _OURS]
            for name in names:
                path = Path(place) / name
                if not name.endswith(_UNFINISHED):
                    status = path.stat()
                    found[path.relative_to(checkpoint).as_posix()] = Seen(status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise ConfigurationError(
            f"the checkpoint {checkpoint} cannot be read: {durable_files.in_words(error)}",
            remedy="name a checkpoint whose query has stopped, and run this as somebody who may read all of it.",
        ) from error
    return found


def _raise(error: OSError) -> None:
    raise error


def copy_whole(old: Path, new: Path, files: Mapping[str, Seen]) -> None:
    """Copy `files` of `old` to `new`, durably, over what an interrupted copy has left there, and read all of it back.

    Raises `CorruptionError` when it reads otherwise, `ConfigurationError` for a disk that refuses.
    """
    try:
        for name in files:
            copied = copy_file(old / name, new / name)
            if _read(new / name) != copied:
                raise CorruptionError(f"{new / name} does not hold what was written to it", remedy="look at its disk.")
        sync_directories(new, files)
        strange = files_of(new).keys() - files.keys()
    except OSError as error:
        raise ConfigurationError(
            f"the checkpoint cannot be copied: {durable_files.in_words(error)}",
            remedy="make room, or stop the old query if it runs; then repeat the adoption.",
        ) from error
    if strange:
        raise CorruptionError(f"{new / min(strange)} is no file of {old}", remedy="remove what was copied, and repeat.")


def _read(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    held = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            held.update(chunk)
    return path.stat().st_size, held.hexdigest()
