"""A file system of 64 KB, to be filled or made read-only."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_READ_ONLY, _REMOUNT, _DETACH = 1, 32, 2


@contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """Mounted at `path`, which is made; skips the test where nothing can be mounted."""
    libc = ctypes.CDLL(None, use_errno=True)
    path.mkdir()
    if libc.mount(b"tmpfs", str(path).encode(), b"tmpfs", 0, b"size=64k") != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield path
    finally:
        libc.umount2(str(path).encode(), _DETACH)


def make_read_only(disk: Path) -> None:
    """Let nobody write to it any more."""
    assert ctypes.CDLL(None).mount(b"tmpfs", str(disk).encode(), b"tmpfs", _READ_ONLY | _REMOUNT, b"") == 0
