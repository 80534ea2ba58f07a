"""Kills a fenced process that is stopped (SIGSTOP) while it has a file locked that its successor must write to.

A fenced process may go on existing: it changes nothing once it wakes up. But SQLite's lock in a local file is released
only with its transaction or its process, and neither ends while the process is stopped. A takeover would wait for ever.
The kill loses no row: the next start finishes what the process has decided. A process that runs is never killed; it
releases the lock by itself.

Linux reports who holds a lock (proc_locks(5)), but not for a process in another container. If none is found, the call
that waits for the lock raises an error that says so.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
from tenacity import RetryError, retry, retry_if_result, stop_after_delay, wait_fixed

from tpc.support import since_boot

logger = logging.getLogger(__name__)

LOCKS = Path("/proc/locks")
LOOK_AGAIN_S = 1.0
"""A process is checked twice, so far apart: a debugger may stop it for a moment."""
END_S = 10.0


class _Lock(NamedTuple):
    """A line of `/proc/locks` for a lock that is held (not for one that is waited for)."""

    kind: str
    """FLOCK: of a whole file; POSIX: of a part of one, as SQLite takes them."""
    is_exclusive: bool
    process: int
    number: int
    """The inode. The device is left out: on an overlay file system it differs from that of `stat`."""


class _File(NamedTuple):
    device: int
    number: int


def kill_stopped_lock_holder(lock: Path, before: tuple[int, float] | None, files: Iterable[Path]) -> None:
    """Kill the earlier leader if it is stopped and has one of `files` (SQLite's) locked against writers.

    Candidates are the processes that hold `lock`, the lock of a checkpoint, and the process `before` (number, begin),
    which had taken over without that lock.
    """
    wanted = list(files)
    for process in {*holders(lock), *_same(before)} - {os.getpid()}:
        if _stands_in_the_way(process, wanted):
            time.sleep(LOOK_AGAIN_S)
            if locked := _stands_in_the_way(process, wanted):
                _end(process, locked)


def holders(lock: Path) -> Iterator[int]:
    """The processes of this machine that hold `lock`, the lock of a checkpoint, also those that were taken over."""
    file = _file(lock)
    for each in _held():
        if file is not None and each.kind == "FLOCK" and each.number == file.number and file in _opened(each.process):
            yield each.process


def _same(process: tuple[int, float] | None) -> Iterator[int]:
    """The number of the process, if that number still belongs to the same process."""
    if process is not None:
        with suppress(psutil.Error):
            if since_boot.is_beginning_of(*process):
                yield process[0]


def _stands_in_the_way(process: int, files: list[Path]) -> Path | None:
    """One of `files` that the process has locked, if the process is stopped; else None."""
    with suppress(psutil.Error):
        if psutil.Process(process).status() == psutil.STATUS_STOPPED:
            return next((path for path in files if _has_locked(process, path)), None)
    return None


def _has_locked(process: int, path: Path) -> bool:
    """Whether the process has a lock that keeps writers out: a write lock or, without a write-ahead log, any lock.

    With a write-ahead log every connection holds a read lock. The file is not opened for this check: SQLite loses its
    locks when any code in its process closes the file.
    """
    path = path.resolve()  # as SQLite does
    beside = {name: path.with_name(f"{path.name}-{name}") for name in ("shm", "wal")}
    opened, held = _opened(process), [each for each in _held() if each.process == process and each.kind == "POSIX"]
    for place, counts_reading in ((path, not beside["wal"].exists()), (beside["shm"], False)):
        file = _file(place)
        if file is not None and file in opened:
            of_file = [each for each in held if each.number == file.number]
            if any(each.is_exclusive or counts_reading for each in of_file):
                return True
    return False


def told_of(process: int) -> str:
    """The beginning of the log line for the kill of this process."""
    return f"process {process} was taken over, is stopped, and has"


def _end(process: int, path: Path) -> None:
    logger.warning(
        "%s %s locked, which this process must write to: it is killed. "
        "This start, or the next one, finishes what it has decided",
        *(told_of(process), path),
    )
    try:
        psutil.Process(process).kill()
        _await_unlocked(process)
    except psutil.NoSuchProcess:
        return
    except RetryError:
        logger.warning("process %d was killed, and still has %s locked after %g s", process, path, END_S)
    except psutil.Error as error:
        logger.warning("process %d, which has %s locked, cannot be ended: %s", process, path, error)


@retry(retry=retry_if_result(bool), stop=stop_after_delay(END_S), wait=wait_fixed(0.02))
def _await_unlocked(process: int) -> list[_Lock]:
    """Wait for the release of SQLite's locks, which comes before the parent reaps the process.

    A lock of flock(2) is not waited for: a child of the process may still hold it.
    """
    return [each for each in _held() if each.process == process and each.kind == "POSIX"]


def _held() -> Iterator[_Lock]:
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError as error:
        logger.debug("the holders of locks are unknown: %s", error)
        return
    for line in lines:
        match line.split():
            case [_, ("FLOCK" | "POSIX") as kind, _, access, process, place, *_]:
                yield _Lock(kind, access == "WRITE", int(process), int(place.rpartition(":")[2]))


def _opened(process: int) -> set[_File]:
    """The files that the process has open; empty for a process of another user."""
    try:
        found = [_file(entry) for entry in Path(f"/proc/{process}/fd").iterdir()]
    except OSError as error:
        logger.debug("the open files of process %d are unknown: %s", process, error)
        return set()
    return {file for file in found if file is not None}


def _file(path: Path) -> _File | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return _File(status.st_dev, status.st_ino)
