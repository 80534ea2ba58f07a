"""Cancels what is computed and written of an epoch, for a takeover, or for a stop while nothing has decided it."""

from __future__ import annotations

from collections.abc import Callable

from tpc.coordinator.kernel.stop_request import EpochNotWantedError
from tpc.errors import TransientError


class EpochAbandonedError(EpochNotWantedError):
    """The service is to stop, and the undecided epoch would take too long. Its events are read by the next start."""


class CancellationToken:
    """Cancels one epoch; `is_abandoned` says whether a stop has waited for it long enough.

    It is asked again and again: between events, and between batches of rows.
    """

    def __init__(self, is_abandoned: Callable[[], bool]) -> None:
        self._is_abandoned = is_abandoned
        self._is_cancelled = False

    def cancel(self) -> None:
        """Another coordinator leads."""
        self._is_cancelled = True

    def raise_if_cancelled(self) -> None:
        """Raise `TransientError` if it is cancelled, `EpochAbandonedError` if a stop does not wait for it."""
        if self._is_cancelled:
            raise TransientError("the pass was ended: another coordinator leads")
        if self._is_abandoned():
            raise EpochAbandonedError("the epoch was given up, since the service is asked to stop")
