"""What an intent rests on beside Spark's log, made durable before it: the state stores, and what the sources have read.

Spark writes these files and never fsyncs them; a power cut leaves them empty, under names that a durable `commits/N-1`
goes on to name. At the beginning of a batch everything that the batches before have made lies there: snapshots and
changelogs, what describes them, the sources' own logs. Each file is made durable once, with its directory, and again
when it has grown since, by a thread that works while the pass runs; the intent waits for it. Which of them a start
needs is in `state_store_files.py` and `source_logs.py`.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tpc.errors import TransientError
from tpc.support import durable_files

FOLDERS = ("state", "sources")
"""The folders of a checkpoint whose files a later batch goes on from."""
_SETTLED_NS = 2_000_000_000
"""A directory that changed more recently may change again within the same tick of its file system's clock."""
_YOUNG_NS = 10_000_000_000
"""A file written to more recently may not be whole yet: Spark's RocksDB store copies the files of a snapshot under the
names that they keep (`RocksDBFileManager`, Spark 4.0), beside later batches too."""
AFTER_FAILED_SYNC = (
    "repair the checkpoint's disk and mount it again, since the kernel may call written what it has dropped, then "
    "restart: the epoch is repeated whole, from what is on the disk."
)
"""What to do where Spark's files could not be made durable."""
_TEMPORARY = ".tmp"
"""How the names of files end that Spark has not finished: what it finishes gets another name."""


@dataclass(frozen=True)
class _Seen:
    """A directory as it was found last; `changed_at` is None where it must be listed again in any case."""

    changed_at: int | None
    entries: frozenset[tuple[str, int]]
    """Names with the numbers of their inodes."""
    directories: tuple[Path, ...]


class CheckpointFsync:
    """The files of one checkpoint, for one process. After a failed fsync nothing is called durable any more."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._seen: dict[Path, _Seen] = {}
        self._young: dict[Path, tuple[int, int]] = {}  # size and time of change as they were before the fsync
        self._failure: OSError | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tpc-checkpoint-fsync")

    def begin(self) -> SyncedFiles:
        """Begin to make durable what is new."""
        return SyncedFiles(self._thread.submit(self._sync))

    def close(self) -> None:
        """Nothing is asked for any more."""
        self._thread.shutdown(wait=False)

    def _sync(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            for path, known in list(self._young.items()):
                self._sync_file(path, known)
            for folder in FOLDERS:
                self._sync_directory(self._checkpoint / folder)
        except OSError as error:
            self._failure = error  # the kernel may have dropped the pages: a second fsync would say that all is well
            raise

    def _sync_file(self, path: Path, known: tuple[int, int] | None) -> None:
        """Make a file durable unless it is as it was `known` to be, and look at it again while it is young."""
        self._young.pop(path, None)
        with suppress(FileNotFoundError):  # Spark removes what it no longer needs
            found = path.stat()
            if (found.st_size, found.st_mtime_ns) != known:
                durable_files.sync(path)
            if time.time_ns() - found.st_mtime_ns <= _YOUNG_NS:
                self._young[path] = (found.st_size, found.st_mtime_ns)

    def _sync_directory(self, directory: Path) -> None:
        """Costs a stat where nothing has changed, else a listing, and an fsync for each new file."""
        seen = self._seen.get(directory)
        try:
            changed_at = directory.stat().st_mtime_ns
            if seen is None or seen.changed_at != changed_at:
                seen = self._seen[directory] = self._sync_entries(directory, changed_at, seen)
        except FileNotFoundError:  # Spark removes what it no longer needs
            self._seen.pop(directory, None)
            return
        for below in seen.directories:
            self._sync_directory(below)

    def _sync_entries(self, directory: Path, changed_at: int, before: _Seen | None) -> _Seen:
        with os.scandir(directory) as listing:
            found = {(entry.name, entry.inode()): entry.is_dir(follow_symlinks=False) for entry in listing}
        new = found.keys() - (before.entries if before else frozenset())
        for name, inode in new:
            if not found[name, inode] and not name.endswith(_TEMPORARY):
                self._sync_file(directory / name, None)
        if new:
            durable_files.sync(directory)
        settled = time.time_ns() - changed_at > _SETTLED_NS
        below = tuple(directory / name for (name, _), is_directory in found.items() if is_directory)
        return _Seen(changed_at if settled else None, frozenset(found), below)


class SyncedFiles:
    """The files of one epoch, which a thread makes durable meanwhile."""

    def __init__(self, done: Future[None]) -> None:
        self._done = done

    def wait(self) -> None:
        """Return when all of them are durable. Raises `TransientError` where one cannot be made so."""
        try:
            self._done.result()
        except OSError as error:
            raise TransientError(
                f"what the epoch rests on could not be made durable: {durable_files.in_words(error)}",
                remedy=AFTER_FAILED_SYNC,
            ) from error
