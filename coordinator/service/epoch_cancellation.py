"""Whether a service is to stop, and whether the epoch that is computed meanwhile is still waited for.

An epoch is cancelled for a takeover, or for a stop that has waited long enough while nothing has decided the epoch.
"""

from __future__ import annotations

import logging
import time

from tpc.coordinator.kernel.stop_request import EpochNotWantedError, StopRequest
from tpc.errors import TransientError

logger = logging.getLogger(__name__)

_LOOK_INTERVAL_S = 1.0
GIVE_UP_AFTER_S = 5.0
"""So long a stop waits for an epoch to be computed and written that nothing has decided yet, and for upkeep."""


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


class CancellationToken:
    """Cancels one epoch. It is asked again and again: between events, and between batches of rows.

    `stop` is None for a decided epoch, which a stop waits for.
    """

    def __init__(self, stop: Stop | None) -> None:
        self._stop = stop
        self._is_cancelled = False

    def cancel(self) -> None:
        """Another coordinator leads."""
        self._is_cancelled = True

    def raise_if_cancelled(self) -> None:
        """Raise `TransientError` if it is cancelled, `EpochAbandonedError` if a stop does not wait for it."""
        if self._is_cancelled:
            raise TransientError("the pass was ended: another coordinator leads")
        if self._stop is not None and self._stop.is_overdue():
            raise EpochAbandonedError("the epoch was given up, since the service is asked to stop")
