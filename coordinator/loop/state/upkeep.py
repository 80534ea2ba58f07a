"""What a store needs beside the epochs, in a thread of its own: compaction, and its write-ahead log written back.

No commit waits for it, until more is left than may be: then the commit does it itself.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from tpc.coordinator.loop.state.checkpoints import write_back
from tpc.coordinator.loop.state.compaction import Kept, compact
from tpc.coordinator.loop.state.database import Database
from tpc.coordinator.loop.state.rules import NO_EPOCH
from tpc.errors import TpcError

logger = logging.getLogger(__name__)

MOST = Kept(deltas=64, rows=200_000)
"""What may be kept apart: a start goes through all of it, and a state on disk keeps it in memory."""
_END_S = 10.0


class Upkeep:
    """Of the entries of `owned` in the store of a sink of that name."""

    def __init__(self, path: Path, timeout_s: float, sink: str, owned: str) -> None:
        self._beside = Database(path, timeout_s, sink, is_upkeep=True)
        self._within = Database(path, timeout_s, sink, is_upkeep=True)
        self._owned = owned
        self._complete = NO_EPOCH
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._due = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None

    def completed(self, epoch: int) -> None:
        """Epochs up to this one are complete: what they changed can go into the entries."""
        self._complete = epoch
        self._after_a_fork()
        if self._thread is None:
            self._ended = False
            name = f"upkeep of {self._beside.path.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._due.set()

    def catch_up(self) -> None:
        """Do now, in the caller's thread, what is too much to be left. Raises as `Database` does."""
        self._after_a_fork()
        compact(self._within, self._owned, self._complete, MOST)

    def close(self) -> None:
        """Finish what is due, end the thread, and let go of the file; the next epoch begins another."""
        self._after_a_fork()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ended = True
            self._due.set()
            thread.join(_END_S)
        self._beside.close()
        self._within.close()

    def _after_a_fork(self) -> None:
        """The child has no thread."""
        if self._process != os.getpid():
            self._begin()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._due.wait()
            self._due.clear()
            is_last = self._ended  # asked before: what was complete when it was set is still compacted
            try:
                compact(self._beside, self._owned, self._complete)
                write_back(self._beside)
            except TpcError as error:  # a commit that meets the same says so
                logger.debug("%s is brought in order later: %s", self._beside.path, error.what)
