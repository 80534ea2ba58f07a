"""Durable file operations: what is done here is on the disk when the call returns, or an error says it may not be.

Every directory entry is made durable by an fsync of its directory (fsync(2)). Calls on a file system that hangs
(a network mount) are given up after a deadline by `within`; what they began may still happen later, which every
caller's protocol allows: preparing twice, committing twice and aborting twice are all harmless.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


def within(timeout_s: float, call: Callable[[], Result]) -> Result:
    """The result of `call`. Raises `TimeoutError` (an `OSError`) if the file system does not answer in time."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001  raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="tpc-files", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"the file system did not answer within {timeout_s:g} s")
    return results[0]


def sync(path: Path) -> None:
    """fsync a file or directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Make a directory and its parents, each durable in the one above."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        sync(directory.parent)


def put_if_absent(path: Path, data: bytes) -> bool:
    """Make a file with this content unless one of that name is there; it never is there in part. False if it was.

    Takes along what others have left who died while they put the same name.
    """
    make_directories(path.parent)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
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
        with suppress(FileNotFoundError):
            temporary.unlink()
    remove_interrupted_puts(path)
    return True


def remove_interrupted_puts(path: Path) -> None:
    """Remove the temporary files of those who died while they put `path`, which is there. Whoever lives knows that."""
    for left in path.parent.glob(f".{path.name}.*"):
        remove(left)


def remove(path: Path) -> None:
    """Remove a file if it is there."""
    with suppress(FileNotFoundError):
        path.unlink()


def in_words(error: OSError) -> str:
    """What the file system said, and about which path."""
    what = error.strerror or str(error)
    return f"{what}: {error.filename}" if error.filename else what
