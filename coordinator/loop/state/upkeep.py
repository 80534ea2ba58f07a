"""What a store needs beside the epochs, in a thread of its own: compaction, and its write-ahead log written back.

No commit waits for it, until more is left than may be: then the commit does it itself.
"""

from __future__ import annotations

import logging
import os
import threading

from tpc.coordinator.loop.state.checkpoints import write_back
from tpc.coordinator.loop.state.compaction import compact
from tpc.coordinator.loop.state.database import Database
from tpc.coordinator.loop.state.rules import NO_EPOCH
from tpc.errors import TpcError

logger = logging.getLogger(__name__)

MOST_DELTAS = 64
MOST_ROWS = 500_000
"""What may be kept apart: a start goes through all of it, and a state on disk keeps it in memory."""
_END_S = 10.0


class Upkeep:
    """Of the entries of `owned` in the store at `database`, which nobody else uses."""

    def __init__(self, database: Database, owned: str) -> None:
        self._database = database
        self._owned = owned
        self._complete = NO_EPOCH
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._due = threading.Event()
        self._running = threading.Lock()
        self._ended = False
        self._thread: threading.Thread | None = None

    def completed(self, epoch: int) -> None:
        """Epochs up to this one are complete: what they changed can go into the entries."""
        self._complete = epoch
        self._after_a_fork()
        if self._thread is None:
            self._ended = False
            name = f"upkeep of {self._database.path.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._due.set()

    def catch_up(self) -> None:
        """Do now what is left, in the caller's thread. Raises as `Database` does."""
        self._after_a_fork()
        with self._running:
            compact(self._database, self._owned, self._complete)

    def close(self) -> None:
        """Finish what is due, end the thread, and let go of the file; the next epoch begins another."""
        self._after_a_fork()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended = True
            self._due.set()
            thread.join(_END_S)
        self._database.close()

    def _after_a_fork(self) -> None:
        """The child has no thread, and its parent's may have held the lock."""
        if self._process != os.getpid():
            self._begin()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._due.wait()
            self._due.clear()
            is_last = self._ended  # asked before: what was complete when it was set is still compacted
            try:
                with self._running:
                    compact(self._database, self._owned, self._complete)
                    write_back(self._database)
            except TpcError as error:  # a commit that meets the same says so
                logger.debug("%s is brought in order later: %s", self._database.path, error.what)
