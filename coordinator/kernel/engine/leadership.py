"""Who leads is asked of the log before an error is told: what another coordinator has done since may be its cause.

What the log shows is compared in `log/fencing.py`. Every look has a deadline. Where the log does not answer in time,
leadership is unknown, and the error says so.
"""

from __future__ import annotations

import logging

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.stop_request import EpochNotWantedError
from tpc.errors import (
    DecisionUnknownError,
    FencedError,
    LeadershipUnknownError,
    LogGoneError,
    TpcError,
    TransientError,
)

logger = logging.getLogger(__name__)

LOOK_TIMEOUT_S = 10.0
"""Of one look at the log. One that answers later, within a longer deadline of its own, counts as silent."""

_LONGEST = 300
_TOLD_AS_IT_IS = (FencedError, LeadershipUnknownError, DecisionUnknownError, LogGoneError, EpochNotWantedError)
"""Errors in which the log has answered already, or has not answered although it was asked for longer; and the end of an
epoch that somebody has asked for, which no other coordinator has caused."""


class Leadership:
    """Asks the log whether another coordinator leads."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self.timeout_s = LOOK_TIMEOUT_S
        self._asked: tuple[Exception, Exception] | None = None
        """The last error for which the log was asked, and what is told of it: one error is asked about once."""

    def require(self) -> None:
        """As `Journal.require_leading`, within the deadline: raises `TransientError` when there is no answer."""
        try:
            self._clock.within(self.timeout_s, self._journal.require_leading, waiting_for="the log")
        except TimeoutError as error:
            raise TransientError(str(error), remedy="bring the log back, then restart the pipeline.") from error

    def instead_of(self, error: Exception) -> Exception:
        """What is to be told: `FencedError` where another coordinator leads, `error` itself where none does.

        `LeadershipUnknownError` where the log does not say.
        """
        if isinstance(error, _TOLD_AS_IT_IS):
            return error
        if self._asked is None or self._asked[0] is not error:
            self._asked = error, self._told(error)
        return self._asked[1]

    def _told(self, error: Exception) -> Exception:
        try:
            self.require()
        except FencedError as fenced:
            logger.info("another coordinator leads, and this one has met: %s", error)
            return fenced
        except Exception as unread:  # noqa: BLE001  a log's own error is no answer either
            logger.warning("whether this coordinator still leads is unknown: %s", unread)
            return _unknown(error, unread)
        return error


def _unknown(error: Exception, unread: Exception) -> LeadershipUnknownError:
    """`error`, and why the current leader is unknown."""
    ours = error if isinstance(error, TpcError) else TpcError(_said(error))
    return LeadershipUnknownError(
        f"{ours.what}. Whether this coordinator still leads is unknown, since the log does not say: {_said(unread)}",
        pipeline=ours.pipeline,
        epoch=ours.epoch,
        sink=ours.sink,
        remedy=f"{LeadershipUnknownError.remedy_by_default} If the next start leads and meets the same: "
        f"{ours.remedy or 'remove the cause.'}",
    )


def _said(error: Exception) -> str:
    """Its words on one line: those of others may be pages long."""
    return error.what if isinstance(error, TpcError) else f"{type(error).__name__}: {error}".splitlines()[0][:_LONGEST]
