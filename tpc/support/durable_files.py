"""Durable file operations: a change is on the disk when the call returns, or an error says that it may not be.

Every directory entry is made durable by an fsync of its directory (fsync(2)). The caller decides which files there are,
and what an error means for an epoch. A failed fsync is never repeated: the kernel may have dropped the pages, and a
second fsync of the same descriptor would then report success.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tpc.support.file_rights import inherit, inherit_at, refused


def sync(path: Path) -> None:
    """fsync a file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents, each durable in the directory above it."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        inherit_at(directory)
        sync(directory.parent)


def create(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o666,
    before_write: Callable[[], None] | None = None,
    before_sync: Callable[[], None] | None = None,
) -> None:
    """Create a new file with durable content. Its name is durable only once its directory is synced.

    Leaves no file behind if it raises `OSError`. The umask is applied to `mode`. The two callables are steps for fault
    injection.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            inherit(descriptor, path.parent)
            if before_write:
                before_write()
            file.write(data)
            file.flush()
            if before_sync:
                before_sync()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def put_if_absent(path: Path, data: bytes) -> bool:
    """Create a file with this content unless one of that name exists; it never exists in part. False if one existed.

    Also removes temporary files of processes that died while they put the same name.
    """
    make_directories(path.parent)
    temporary = _temporary(path)
    create(temporary, data)
    try:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except FileNotFoundError:
            if not path.exists():
                raise
            return False  # another process has put it meanwhile, and removed our temporary file as a leftover
        finally:
            sync(path.parent)  # also if it existed: the process that put it may not have synced the directory yet
    finally:
        remove(temporary)
    remove_interrupted_puts(path)
    return True


def replace(path: Path, data: bytes) -> None:
    """Make `path` hold `data`. After a crash it has the old content (or does not exist) or the new, never a part."""
    temporary = _temporary(path)
    create(temporary, data)
    try:
        temporary.replace(path)
    except OSError:
        remove(temporary)
        raise
    sync(path.parent)


def remove(path: Path) -> None:
    """Remove a file if it exists."""
    with suppress(FileNotFoundError):
        path.unlink()


def remove_interrupted_puts(path: Path) -> None:
    """Remove temporary files of processes that died while they put `path`, which exists. Running ones expect that."""
    for left in path.parent.glob(f".{path.name}.*"):
        remove(left)


def in_words(error: OSError) -> str:
    """The file system's message, with the path if there is one; of missing rights also whose file that is."""
    what = error.strerror or str(error)
    said = f"{what}: {error.filename}" if error.filename else what
    return f"{said} ({why})" if (why := refused(error)) else said


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}")
