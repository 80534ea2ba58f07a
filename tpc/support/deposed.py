"""Ends a process that was taken over, if it stands still with a file locked that its successor has to write to.

Whoever was taken over may live on: it is fenced, and changes nothing once it wakes up. But a lock within a local file,
SQLite's, goes only with its process or with the transaction, and neither ends while the process is stopped. A takeover
would wait in vain. Nothing is lost with such a process: what it has decided its successor finishes, and it could only
have ended fenced. One that runs is never ended; it lets go by itself.

Linux tells who holds a lock (proc_locks(5)); a process in another container is not seen. Where nothing is found, the
call that waits for the lock says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
from tenacity import RetryError, retry, retry_if_result, stop_after_delay, wait_fixed

logger = logging.getLogger(__name__)

LOCKS = Path("/proc/locks")
STANDS_STILL = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
END_S = 10.0


class _Lock(NamedTuple):
    """A line of `/proc/locks` of a lock that is held, not waited for."""

    kind: str
    """FLOCK, of a whole file; POSIX, of a part of one, as SQLite takes them."""
    is_exclusive: bool
    process: int
    file: int
    """The file's number. Not its device: an overlay shows another one than its files have."""


def end_deposed(lock: Path, files: Iterable[Path]) -> None:
    """End whoever holds `lock`, a checkpoint's, still, stands still, and has one of `files` locked for writing.

    SQLite's are locked by the file itself, or by the one beside it that ends in -shm.
    """
    places = [place for path in files for place in (path, path.with_name(f"{path.name}-shm"))]
    needed = {number: place for place in places if (number := _number(place)) is not None}
    the_lock = _number(lock)
    for holder in {each.process for each in _held() if each.kind == "FLOCK" and each.file == the_lock}:
        _end_if_in_the_way(holder, needed)


def _end_if_in_the_way(process: int, needed: Mapping[int, Path]) -> None:
    locked = _locked(process, needed)
    try:
        if not locked or (found := psutil.Process(process)).status() not in STANDS_STILL:
            return
        logger.warning(
            "process %d was taken over, stands still, and has %s locked, which this process has to write to: it is "
            "killed. What it has decided is finished here",
            *(process, locked),
        )
        found.kill()
        _await_unlocked(process, needed)
    except psutil.NoSuchProcess:
        return  # it has ended meanwhile, and its locks with it
    except (psutil.Error, RetryError) as error:
        logger.warning("process %d, which has %s locked, cannot be ended: %s", process, locked, error)


@retry(retry=retry_if_result(bool), stop=stop_after_delay(END_S), wait=wait_fixed(0.02))
def _await_unlocked(process: int, needed: Mapping[int, Path]) -> Path | None:
    """Its parent may reap it much later; its locks go at once."""
    return _locked(process, needed)


def _locked(process: int, needed: Mapping[int, Path]) -> Path | None:
    """One of the files that a process has locked for writing."""
    held = (each for each in _held() if each.process == process and each.kind == "POSIX" and each.is_exclusive)
    return next((needed[each.file] for each in held if each.file in needed), None)


def _held() -> Iterator[_Lock]:
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError as error:
        logger.debug("who holds a lock is not known: %s", error)
        return
    for line in lines:
        match line.split():
            case [_, ("FLOCK" | "POSIX") as kind, _, access, process, place, *_]:
                yield _Lock(kind, access == "WRITE", int(process), int(place.rpartition(":")[2]))


def _number(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
