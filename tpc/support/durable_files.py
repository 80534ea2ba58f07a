"""Durable file operations: what is done here is on the disk when the call returns, or an error says it may not be.

Every directory entry is made durable by an fsync of its directory (fsync(2)). Which files there are, and what an error
means for an epoch, is the affair of the caller. After a failed fsync nothing here tries again: the kernel may have
dropped the pages, and a second fsync of the same descriptor would say that all is well.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def sync(path: Path) -> None:
    """fsync a file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Make a directory and its parents, each durable in the one above, up to one that existed before."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        sync(directory.parent)


def create(
    path: Path,
    data: bytes,
    *,
    mode: int = 0o666,
    before_write: Callable[[], None] | None = None,
    before_sync: Callable[[], None] | None = None,
) -> None:
    """Make a file that is not there, its content durable; its name is not, before its directory is synced.

    Leaves no file behind when it raises `OSError`. `mode` is what the umask takes from. The two callables are steps at
    which somebody else may act.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
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
    """Make a file with this content unless one of that name is there; it never is there in part. False if it was.

    Takes along what others have left who died while they put the same name.
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
            return False  # it was put meanwhile, and our temporary file taken for one that was left
        finally:
            sync(path.parent)  # also when it was there: whoever put it may not have come so far
    finally:
        remove(temporary)
    remove_interrupted_puts(path)
    return True


def replace(path: Path, data: bytes) -> None:
    """Make `path` hold `data`: before a crash the old content or none, after it the new, never a part of it."""
    temporary = _temporary(path)
    create(temporary, data)
    try:
        temporary.replace(path)
    except OSError:
        remove(temporary)
        raise
    sync(path.parent)


def remove(path: Path) -> None:
    """Remove a file if it is there."""
    with suppress(FileNotFoundError):
        path.unlink()


def remove_interrupted_puts(path: Path) -> None:
    """Remove the temporary files of those who died while they put `path`, which is there. Whoever lives knows that."""
    for left in path.parent.glob(f".{path.name}.*"):
        remove(left)


def in_words(error: OSError) -> str:
    """What the file system said, and about which path."""
    what = error.strerror or str(error)
    return f"{what}: {error.filename}" if error.filename else what


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}")
