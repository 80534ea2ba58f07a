"""Writes a store's write-ahead log back into its file: only the place of what is durable already changes.

Always with nobody writing, and never twice over the same log. SQLite before 3.51.3 can take a log that was begun anew
for one that is written back already, when a writer begins it anew while a checkpoint of a log that was whole before
looks at it ("the WAL-reset bug"; with a checkpoint that was made to pause there, a committed epoch was gone and the
file malformed in three runs of three). Where nobody writes back, SQLite does it within a commit, once the log is long
(`Database`).
"""

from __future__ import annotations

import logging
from contextlib import suppress

from tpc.coordinator.service.state.database import Database

WORTH_BYTES = 1_000_000
"""A page that several epochs have changed is written once; and an epoch that comes meanwhile waits for all of it."""


TELL_FROM_BYTES = 64 << 20
"""A log of this size that cannot be written back is told of."""

logger = logging.getLogger(__name__)


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
