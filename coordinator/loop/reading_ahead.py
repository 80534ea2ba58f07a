"""The next epoch's events are taken in while the running one is flushed, decided and committed.

That is waiting, most of it: for brokers, for databases, for the disk. Only events are taken in: no function runs, and
nothing is cut, before the running epoch has ended. What was taken in and not cut is read again by the next start, as
ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType

from tpc.errors import TransientError

logger = logging.getLogger(__name__)

Read = Callable[[Callable[[], bool]], None]
"""Takes in what is there, and ends soon once what it is given says that it is time to."""
_GRACE_S = 5.0


class ReadingAhead:
    """A context around one epoch. From `begin` on `read` is called in a thread of its own, which ends with the epoch.

    What `read` raises does not end the epoch: it is raised when that has ended, since a client may tell of a loss once
    only. Where the epoch itself fails, or the service is asked to stop and what was met may pass, it is logged.
    """

    def __init__(self, read: Read, is_stopped: Callable[[], bool]) -> None:
        self._read = read
        self._is_stopped = is_stopped
        self._is_begun = False
        self._is_over = False
        self._ended = Event()
        """Not the thread's own end: an interrupt of `join` has been seen to call a thread ended that ran on."""
        self._error: BaseException | None = None

    def begin(self) -> None:
        """The rows of the epoch are all with their sinks."""
        if self._is_begun:
            return
        try:
            Thread(target=self._run, name="tpc-reading-ahead", daemon=True).start()
        except RuntimeError as error:  # no more threads: the events are read when the epoch has ended
            logger.warning("the next epoch is not read ahead: %s", error)
        else:
            self._is_begun = True

    def __enter__(self) -> ReadingAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if self._is_begun:
            try:
                self._ended.wait()
            finally:  # interrupted, too: who is interrupted closes the sources
                self._ended.wait(_GRACE_S)
        if self._error is None:
            return
        if kind is None and not (self._is_stopped() and isinstance(self._error, TransientError)):
            raise self._error
        logger.error("reading on while the epoch was committed has met: %s", self._error)

    def _run(self) -> None:
        try:
            self._read(lambda: self._is_over)
        except BaseException as raised:  # noqa: BLE001  the thread of the epochs raises it
            self._error = raised
        finally:
            self._ended.set()
