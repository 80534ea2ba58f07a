"""Tests have their directories on a disk in memory, where there is one with room: fsync proves nothing in most of them.

A disk takes some milliseconds for each, and a run makes tens of thousands. What is about a disk itself (a power cut, a
full one) mounts one of its own. `PYTEST_DEBUG_TEMPROOT=/tmp`, or `--basetemp`, puts them elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

ROOT = "PYTEST_DEBUG_TEMPROOT"
"""Pytest's variable for the directory that it makes all others in."""
MEMORY_DISK = Path("/dev/shm")
LEAST_BYTES = 8 * 1024**3
"""Free on it, and free of the machine's memory, which servers and sessions of Spark need too."""


def why_not(disk: Path = MEMORY_DISK, least_bytes: int = LEAST_BYTES) -> str | None:
    """What `disk` lacks; None where tests can have their directories on it."""
    if not os.access(disk, os.W_OK):
        return f"{disk} is not there, or not ours to write to"
    shown = os.statvfs(disk)
    if shown.f_flag & os.ST_NOEXEC:
        return f"{disk} is mounted noexec, and tests run programs"
    if min(shown.f_bavail * shown.f_frsize, psutil.virtual_memory().available) < least_bytes:
        return f"less than {least_bytes} bytes are free on {disk} or in memory"
    return None


def pytest_configure() -> None:
    """Before the first directory is made; a process of xdist gets its own from the one that began the run."""
    if ROOT not in os.environ and why_not() is None:
        os.environ[ROOT] = str(MEMORY_DISK)
