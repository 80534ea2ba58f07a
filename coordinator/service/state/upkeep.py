"""What a store needs beside the epochs, in a thread of its own: compaction, and its write-ahead log written back.

No commit waits for it, until more is left than may be: then the commit does it itself.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from pathlib import Path

from tpc.coordinator.service.state.compaction import Backlog, backlog, compact
from tpc.coordinator.service.state.database import Database
from tpc.coordinator.service.state.rules import NO_EPOCH
from tpc.errors import TpcError

logger = logging.getLogger(__name__)

LEFT = Backlog(deltas=16, rows=50_000)
"""What is left kept apart as long as epochs follow: the more come together, the less often a key is brought in."""
MOST = Backlog(deltas=64, rows=200_000)
"""What may be kept apart: a start goes through all of it, and a state on disk keeps it in memory."""
_END_S = 10.0
_QUIET_S = 0.2
"""After so long without an epoch none is in the way: what has begun goes on, and memory is free again."""


class Upkeep:
    """Of the entries of `owned` in the store of a sink of that name."""

    def __init__(self, path: Path, timeout_s: float, sink: str, owned: str) -> None:
        self._place = path, timeout_s, sink
        self._within = Database(path, timeout_s, sink, is_upkeep=True)
        self._owned = owned
        self._complete = NO_EPOCH
        self._thread: _Thread | None = None

    def completed(self, epoch: int) -> None:
        """Epochs up to this one are complete: what they changed can go into the entries."""
        if epoch <= self._complete:
            return
        self._complete = epoch
        thread = self._thread
        if thread is None or thread.process != os.getpid() or not thread.is_alive():
            thread = self._thread = _Thread(Database(*self._place, is_upkeep=True), self._owned)
            thread.start()
        thread.complete = epoch
        thread.due.set()

    def catch_up(self) -> None:
        """Do now, in the caller's thread, what is too much to be left. Raises as `Database` does."""
        compact(self._within, self._owned, self._complete, MOST)

    def close(self) -> None:
        """Finish what is due, end the thread, and let go of the file; the next epoch begins another.

        What takes longer than `_END_S` is left to the next process; the thread ends with its transaction then.
        """
        thread, self._thread = self._thread, None
        if thread is not None and thread.process == os.getpid():
            thread.is_last = True
            thread.due.set()
            thread.join(_END_S)
            thread.is_stopped = True
        self._within.close()


class _Thread(threading.Thread):
    """Who asks it for something sets `due` last."""

    def __init__(self, database: Database, owned: str) -> None:
        super().__init__(name=f"upkeep of {database.path.name}", daemon=True)
        self.process = os.getpid()
        """A child has the object, and no thread."""
        self.due = threading.Event()
        self.complete = NO_EPOCH
        self.is_last = False
        self.is_stopped = False
        self._database = database
        self._owned = owned
        self._write_back = WriteBack(database)
        self._has_failed = False
        self._share = 0
        """Transactions until the next epoch."""

    def run(self) -> None:
        is_last = False
        try:
            while not is_last:
                if not self.is_last:  # which is set before `due`, and that may have been cleared by `_await_share`
                    self.due.wait()
                self.due.clear()
                is_last = self.is_last  # asked before: what was complete when it was set is still compacted
                self._do(is_last=is_last)
        finally:
            self._database.close()

    def _do(self, *, is_last: bool) -> None:
        try:
            found = backlog(self._database, self._owned)
            if is_last or found.exceeds(LEFT):
                self._share = found.transactions_an_epoch
                compact(self._database, self._owned, self.complete, goes_on=self._await_share)
            self._write_back.if_worth_it()
            self._has_failed = False
        except TpcError as error:  # what was committed stays so
            level = logging.DEBUG if self._has_failed else logging.WARNING
            logger.log(level, "%s is brought in order later: %s", self._database.path, error.what)
            self._has_failed = True

    def _await_share(self) -> bool:
        """Let the epochs go first, each of which is followed by its share of transactions; False: no more of them.

        Done all at once, those of many epochs would stand in the way of the next ones; and a log that was written back
        at their end alone would be so long that an epoch waited for it.
        """
        if self._share == 0 and not self.is_last:
            self._write_back.if_worth_it()
            if self.due.wait(_QUIET_S):
                self.due.clear()
                self._share = backlog(self._database, self._owned).transactions_an_epoch
        self._share = max(0, self._share - 1)
        return not self.is_stopped


# Writes a store's write-ahead log back into its file: only the place of what is durable already changes.
#
# Always with nobody writing, and never twice over the same log. SQLite before 3.51.3 can take a log that was begun
# again for one that is written back already, when a writer begins it anew while a checkpoint of a log that was whole
# before looks at it ("the WAL-reset bug"; with a checkpoint that was made to pause there, a committed epoch was gone
# and the file malformed in three runs of three). Where nobody writes back, SQLite does it within a commit, once the log
# is long (`Database`).

WORTH_BYTES = 1_000_000
"""A page that several epochs have changed is written once; and an epoch that comes meanwhile waits for all of it."""

TELL_FROM_BYTES = 64 << 20
"""A log of this size that cannot be written back is told of."""


class WriteBack:
    """Of one store. Other threads of the process are kept out by its turn, other processes by SQLite's lock."""

    def __init__(self, database: Database) -> None:
        self._database = database
        file = database.path.resolve()  # SQLite puts its log beside the file, not beside a link to it
        self._log = file.with_name(f"{file.name}-wal")
        self._tell_from_bytes = TELL_FROM_BYTES
        self._whole: tuple[int, int] | None = None
        """How the log was, its size and its time of change, when all of it had been written back."""

    def if_worth_it(self) -> None:
        """Write it back, if there is enough that was not. Raises as `Database` does."""
        found = self._found()
        if found[0] < WORTH_BYTES or found == self._whole:
            return
        with self._database.alone("writing back the log of") as connection:
            connection.execute("PRAGMA busy_timeout = 0")  # who reads is not waited for: epochs would wait as well
            try:
                # FULL takes the writers' lock, which keeps other processes' commits out. While one of them commits,
                # SQLite does without the lock.
                [(is_busy, in_log, written)] = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchall()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {round(self._database.timeout_s * 1000)}")
            self._whole = self._found() if not is_busy and in_log == written else None
        if is_busy:
            self._tell_of_who_reads(found[0])

    def _tell_of_who_reads(self, size_bytes: int) -> None:
        """Once for each time that the log has doubled."""
        if size_bytes < self._tell_from_bytes:
            return
        self._tell_from_bytes = 2 * size_bytes
        logger.warning(
            "%s has %d MB, and grows: somebody reads an older content of the state, or stands still while doing so. "
            "Nothing is lost; it shrinks once that process goes on or is killed (fuser %s)",
            *(self._log, size_bytes >> 20, self._database.path),
        )

    def _found(self) -> tuple[int, int]:
        with suppress(OSError):  # another process has just written it back, and was the last
            status = self._log.stat()
            return status.st_size, status.st_mtime_ns
        return 0, 0
