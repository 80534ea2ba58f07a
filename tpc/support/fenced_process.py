"""Ends a process that was taken over, if it stands still with a file locked that its successor has to write to.

Whoever was taken over may live on: it is fenced, and changes nothing once it wakes up. But a lock within a local file,
SQLite's, goes only with its process or with the transaction, and neither ends while the process is stopped. A takeover
would wait in vain. No row is lost with such a process: what it has decided whoever starts next finishes. One that runs
is never ended; it lets go by itself.

Linux tells who holds a lock (proc_locks(5)); a process in another container is not seen. Where nothing is found, the
call that waits for the lock says so.
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
"""Somebody may stop a process for a moment, to look at it."""
END_S = 10.0


class _Lock(NamedTuple):
    """A line of `/proc/locks` of a lock that is held, not waited for."""

    kind: str
    """FLOCK, of a whole file; POSIX, of a part of one, as SQLite takes them."""
    is_exclusive: bool
    process: int
    number: int
    """The file's. The device is not as `stat` tells it, where one file system lies over another."""


class _File(NamedTuple):
    device: int
    number: int


def end_fenced_process(lock: Path, before: tuple[int, float] | None, files: Iterable[Path]) -> None:
    """End who led, if it is stopped and has one of `files`, SQLite's, locked so that nobody else can write to it.

    That is whoever still holds `lock`, a checkpoint's; and `before`, which had gone past it: its number, and when it
    began.
    """
    wanted = list(files)
    for process in {*holders(lock), *_same(before)} - {os.getpid()}:
        if _stands_in_the_way(process, wanted):
            time.sleep(LOOK_AGAIN_S)
            if locked := _stands_in_the_way(process, wanted):
                _end(process, locked)


def holders(lock: Path) -> Iterator[int]:
    """Processes of this machine that hold the lock `lock` of a checkpoint, also after somebody has gone past them."""
    file = _file(lock)
    for each in _held():
        if file is not None and each.kind == "FLOCK" and each.number == file.number and file in _opened(each.process):
            yield each.process


def _same(process: tuple[int, float] | None) -> Iterator[int]:
    """Its number, if that is still the same process."""
    if process is not None:
        with suppress(psutil.Error):
            if since_boot.is_beginning_of(*process):
                yield process[0]


def _stands_in_the_way(process: int, files: list[Path]) -> Path | None:
    """The file that it has locked, and is stopped."""
    with suppress(psutil.Error):
        if psutil.Process(process).status() == psutil.STATUS_STOPPED:
            return next((path for path in files if _has_locked(process, path)), None)
    return None


def _has_locked(process: int, path: Path) -> bool:
    """For writing; or, where a reader keeps writers out, at all. With a write-ahead log a connection always has a lock.

    The file is not opened to see which it is: SQLite loses its locks when anybody in its process closes it.
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
    """How what is logged begins when this process is killed."""
    return f"process {process} was taken over, stands still, and has"


def _end(process: int, path: Path) -> None:
    logger.warning(
        "%s %s locked, which this process has to write to: it is killed. "
        "What it has decided is finished by this start, or by the next one",
        *(told_of(process), path),
    )
    try:
        psutil.Process(process).kill()
        _await_unlocked(process)
    except psutil.NoSuchProcess:
        return
    except RetryError:
        logger.warning("process %d was killed, and has %s locked still after %g s", process, path, END_S)
    except psutil.Error as error:
        logger.warning("process %d, which has %s locked, cannot be ended: %s", process, path, error)


@retry(retry=retry_if_result(bool), stop=stop_after_delay(END_S), wait=wait_fixed(0.02))
def _await_unlocked(process: int) -> list[_Lock]:
    """Its parent may reap it much later; SQLite's locks go at once. One of flock(2) may stay, with a child of it."""
    return [each for each in _held() if each.process == process and each.kind == "POSIX"]


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


def _opened(process: int) -> set[_File]:
    """The files that it has open; none where it is another user's."""
    try:
        found = [_file(entry) for entry in Path(f"/proc/{process}/fd").iterdir()]
    except OSError as error:
        logger.debug("which files process %d has open is not known: %s", process, error)
        return set()
    return {file for file in found if file is not None}


def _file(path: Path) -> _File | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return _File(status.st_dev, status.st_ino)
