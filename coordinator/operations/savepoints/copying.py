"""Files are copied durably, with their checksums, and compared with them. What they mean is not known here."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tpc.coordinator.operations.savepoints.manifest import CHECKPOINT, LOG, SavepointManifest, files_below
from tpc.errors import CorruptionError
from tpc.support import durable_files
from tpc.support.file_rights import inherit
from tpc.support.names_below import file_below, path_below

_CHUNK_BYTES = 1 << 20
_FOLDERS = ("offsets", "commits", "state", "sources")
_FILES = ("metadata", ".metadata.crc", "tpc/callbacks.json")
"""What a checkpoint holds beside its folders: Spark's query id, and the newest epoch that callbacks were told."""


def spark_files(checkpoint: Path) -> list[str]:
    """The files of a checkpoint that a start goes on from, the log apart, as paths from there.

    Lists of plans and commits first, then the state that they name. What Spark has not finished is left out.
    """
    found = [name for name in _FILES if (checkpoint / name).is_file()]
    for folder in _FOLDERS:
        if (checkpoint / folder).is_dir():
            found += [f"{folder}/{name}" for name in files_below(checkpoint / folder) if not name.endswith(".tmp")]
    return found


def copy_file(source: Path, target: Path) -> tuple[int, str]:
    """Copy one file, its content durable, over what an interrupted copy has left; its size and SHA-256."""
    durable_files.make_directories(target.parent)
    sha, size = hashlib.sha256(), 0
    durable_files.remove(target)  # an interrupted copy has left it, or somebody a link
    with source.open("rb") as reading, target.open("xb") as writing:
        inherit(writing.fileno(), target.parent)
        while chunk := reading.read(_CHUNK_BYTES):
            writing.write(chunk)
            sha.update(chunk)
            size += len(chunk)
        writing.flush()
        os.fsync(writing.fileno())
    return size, sha.hexdigest()


def write_file(target: Path, data: bytes) -> tuple[int, str]:
    """Write one file, durable; its size and SHA-256."""
    durable_files.make_directories(target.parent)
    durable_files.replace(target, data)
    return len(data), hashlib.sha256(data).hexdigest()


def sync_directories(root: Path, names: Iterable[str]) -> None:
    """Make the names of files durable: every directory that they stand in, up to `root`."""
    directories = {root}
    for name in names:
        directories.update(root / parent for parent in Path(name).parents)
    for directory in directories:
        durable_files.sync(directory)


def check_whole(folder: Path, manifest: SavepointManifest) -> None:
    """Every file that the manifest names must be there with its bytes, and no other where a restore would read it.

    Raises `CorruptionError` naming the first that is wrong.
    """
    for name, known in manifest.files.items():
        if why := _why_another(folder, name, known):
            raise CorruptionError(
                f"the savepoint {folder} is damaged: {name} {why}",
                remedy="copy the savepoint again from where it is whole, or restore another one.",
            )
    for below in (CHECKPOINT, LOG):
        strange = {f"{below}/{name}" for name in files_below(folder / below)} - manifest.files.keys()
        if strange:
            raise CorruptionError(
                f"the savepoint {folder} is damaged: {min(strange)} is no file of it",
                remedy="remove what was put there, or copy the savepoint again.",
            )


def _why_another(folder: Path, name: str, known: tuple[int, str]) -> str:
    size, sha = known
    try:
        path = file_below(folder, name, f"the savepoint {folder}")
        if path.stat().st_size != size:
            return f"has {path.stat().st_size} bytes, it had {size}"
        with path.open("rb") as file:
            held = hashlib.sha256()
            while chunk := file.read(_CHUNK_BYTES):
                held.update(chunk)
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "" if held.hexdigest() == sha else "holds other bytes than it did"


def copy_known(folder: Path, files: Mapping[str, tuple[int, str]], root: Path) -> None:
    """Copy the files of `folder` that `files` names to `root`, durably.

    Raises `CorruptionError` for other bytes, and for a name that leads out of either of the two.
    """
    for name, known in files.items():
        source = file_below(folder, name, f"the savepoint {folder}")
        if copy_file(source, path_below(root, name, f"the savepoint {folder}")) != known:
            raise CorruptionError(f"{source} has changed while it was copied", remedy="restore it once more.")
    sync_directories(root, files)
