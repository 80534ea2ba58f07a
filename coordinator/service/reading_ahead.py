"""The next epoch's events are taken in while the running one is flushed, decided and committed.

That is waiting, most of it: for brokers, for databases, for the disk. Only events are taken in: no function runs, and
nothing is cut, before the running epoch has ended. What was taken in and not cut is read again by the next start, as
ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType

from tpc.coordinator.kernel.feeding.background_call import BackgroundCall
from tpc.errors import TransientError

logger = logging.getLogger(__name__)

Read = Callable[[Callable[[], bool]], None]
"""Takes in what is there, and ends soon once what it is given says that it is time to."""


class ReadingAhead:
    """A context around one epoch. From `begin` on `read` is called in a thread of its own, which ends with the epoch.

    What `read` raises does not end the epoch: it is raised when that has ended, since a client may tell of a loss once
    only. Where the epoch itself fails, or the service is asked to stop and what was met may pass, it is logged.
    """

    def __init__(self, read: Read, is_stopped: Callable[[], bool]) -> None:
        self._is_stopped = is_stopped
        self._is_over = False
        self._background = BackgroundCall("tpc-reading-ahead", lambda: read(lambda: self._is_over))

    def begin(self) -> None:
        """The rows of the epoch are all with their sinks."""
        try:
            self._background.begin()
        except RuntimeError as error:  # no more threads: the events are read when the epoch has ended
            logger.warning("the next epoch is not read ahead: %s", error)

    def __enter__(self) -> ReadingAhead:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        self._background.wait()
        met = self._background.error
        if met is None:
            return
        if kind is None and not (self._is_stopped() and isinstance(met, TransientError)):
            raise met
        logger.error("reading on while the epoch was committed has met: %s", met)
