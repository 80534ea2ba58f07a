"""Whether a service is to stop, and whether the epoch that is computed meanwhile is still waited for.

An epoch is cancelled for a takeover, or for a stop that has waited long enough while nothing has decided the epoch. And
a function that forks comes back twice: the child ends, since two processes would write the epoch and decide it.
"""

from __future__ import annotations

import logging
import os
import time
from types import TracebackType

from tpc.coordinator.kernel.stop_request import EpochNotWantedError, StopRequest
from tpc.errors import TransientError

logger = logging.getLogger(__name__)

_LOOK_INTERVAL_S = 1.0
GIVE_UP_AFTER_S = 5.0
"""So long a stop waits for an epoch to be computed and written that nothing has decided yet, and for upkeep."""
CAME_BACK = 70
"""The exit code of a child that user code has forked, and that has come back from it."""


class EpochAbandonedError(EpochNotWantedError):
    """The service is to stop, and the undecided epoch would take too long. Its events are read by the next start."""


class Stop:
    """Whether a service is asked to stop: by a signal, by its program, or by another process through `request`."""

    def __init__(self, request: StopRequest) -> None:
        self._request = request
        self._asked_s: float | None = None
        """When, by the monotonic clock."""
        self._looked_at_s = time.monotonic()

    def begin(self) -> None:
        """A request that is there was made of the process before this one."""
        self._request.remove()

    def ask(self) -> None:
        """The service is to stop after its current epoch."""
        if self._asked_s is None:
            self._asked_s = time.monotonic()

    def is_asked(self) -> bool:
        """Whether the service is to stop."""
        return self._asked_s is not None

    def look(self) -> None:
        """Look for the request of another process."""
        self._looked_at_s = time.monotonic()
        if self._asked_s is None and self._request.is_made():
            logger.info("the service is asked to stop after its current epoch")
            self.ask()

    def is_overdue(self) -> bool:
        """Whether an undecided epoch is not waited for any longer. It is asked while one is computed, and looks."""
        now = time.monotonic()
        if self._asked_s is None and now - self._looked_at_s >= _LOOK_INTERVAL_S:
            self.look()
        return self._asked_s is not None and now - self._asked_s >= GIVE_UP_AFTER_S


class OneProcess:
    """The process that leads a service. A context around user code, and asked between its calls.

    A child ends at once, and runs nothing that a `finally` holds: whatever else it did, an abort above all, would be
    done to branches of its parent.
    """

    def __init__(self) -> None:
        self._number = os.getpid()

    def end_a_child(self) -> None:
        """Return in the process itself; in a child of it, end."""
        if os.getpid() == self._number:
            return
        logger.critical(
            "a function has forked process %d, and its child %d has come back from it. The child ends here and has "
            "written nothing; process %d goes on. To do: let a child end in the function (os._exit), or use "
            "subprocess or multiprocessing.",
            self._number,
            os.getpid(),
            self._number,
        )
        os._exit(CAME_BACK)

    def __enter__(self) -> OneProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_a_child()


class CancellationToken:
    """Cancels one epoch. It is asked again and again: between events, and between batches of rows.

    `stop` is None for a decided epoch, which a stop waits for. In a child that a function has forked it does not answer
    but ends it (`one_process`).
    """

    def __init__(self, stop: Stop | None, one_process: OneProcess) -> None:
        self._stop = stop
        self.one_process = one_process
        self._is_cancelled = False

    def cancel(self) -> None:
        """Another coordinator leads."""
        self._is_cancelled = True

    def raise_if_cancelled(self) -> None:
        """Raise `TransientError` if it is cancelled, `EpochAbandonedError` if a stop does not wait for it."""
        self.one_process.end_a_child()
        if self._is_cancelled:
            raise TransientError("the pass was ended: another coordinator leads")
        if self._stop is not None and self._stop.is_overdue():
            raise EpochAbandonedError("the epoch was given up, since the service is asked to stop")
