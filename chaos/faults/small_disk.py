"""A file system of a few pages, to be filled, emptied, made read-only and writable again. Mounting needs root."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

SIZE = "64k"
_READ_ONLY, _REMOUNT, _DETACH = 1, 32, 2
_PAGE = 4096
_FILLER = ".filler"


class SmallDisk:
    """A tmpfs mounted at `path`, which is made. Raises `OSError` where nothing can be mounted."""

    def __init__(self, path: Path, size: str = SIZE) -> None:
        self.path = path
        path.mkdir(parents=True)
        _mount(path, 0, f"size={size}")

    def fill(self) -> None:
        """Leave not one page free."""
        descriptor = os.open(self.path / _FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            while True:
                os.write(descriptor, b"\0" * _PAGE)
        except OSError:
            return  # it is full
        finally:
            os.close(descriptor)

    def empty(self) -> None:
        """Undo `fill`."""
        (self.path / _FILLER).unlink(missing_ok=True)

    def make_read_only(self) -> None:
        """Let nobody write to it any more. Raises `OSError` while a file is open for writing."""
        _mount(self.path, _READ_ONLY | _REMOUNT, "")

    def make_writable(self) -> None:
        """Undo `make_read_only`."""
        _mount(self.path, _REMOUNT, "")

    def unmount(self) -> None:
        """Take it away, also while somebody uses it."""
        ctypes.CDLL(None).umount2(str(self.path).encode(), _DETACH)


def _mount(path: Path, flags: int, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "umount2"):
        raise OSError(f"a tmpfs cannot be mounted at {path}: this is not Linux")
    if libc.mount(b"tmpfs", str(path).encode(), b"tmpfs", flags, options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"a tmpfs cannot be mounted at {path}: {os.strerror(number)}")


@contextmanager
def mounted(path: Path, size: str = SIZE) -> Iterator[SmallDisk]:
    """One that is taken away when the block ends. Raises as `SmallDisk` does."""
    disk = SmallDisk(path, size)
    try:
        yield disk
    finally:
        disk.unmount()


@lru_cache(maxsize=1)
def why_not() -> str | None:
    """Why nothing can be mounted here; None when it can."""
    with tempfile.TemporaryDirectory() as place:
        try:
            with mounted(Path(place) / "tried"):
                return None
        except OSError as error:
            return error.strerror or str(error)
