"""Writes a store's write-ahead log back into its file, beside the epochs: no commit waits for it.

Only the place of what is durable already changes. Where this thread is not there, after a fork, or does not keep up,
SQLite does the same within a commit, once the log is long (`Database`).
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

logger = logging.getLogger(__name__)

WORTH_BYTES = 4_000_000
"""A page that several epochs have changed is written once."""
_END_S = 10.0


class Checkpoints:
    """Of the SQLite file at `path`, in a thread that begins with the first commit that makes one worth its while."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._due = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    def after_commit(self) -> None:
        """See whether it is time for one."""
        try:
            if self._log.stat().st_size < WORTH_BYTES:
                return
        except OSError:  # another process has just done it, and was the last
            return
        if self._thread is None:
            self._ended = False
            self._thread = threading.Thread(target=self._run, name=f"checkpoints of {self._path.name}", daemon=True)
            self._thread.start()
        self._due.set()

    def close(self) -> None:
        """End the thread; the next commit begins another."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended = True
            self._due.set()
            thread.join(_END_S)

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._ended:
                return
            try:
                self._write_back()
            except sqlite3.Error as error:  # a commit that meets the same says so
                logger.debug("the write-ahead log of %s is written back later: %s", self._path, error)

    def _write_back(self) -> None:
        # A connection for each: the file may have been put back from a backup meanwhile.
        place = f"{self._path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(place, uri=True, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
