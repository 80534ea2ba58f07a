"""Sends the commits of a decided epoch, again and again while their outcome is unknown.

Between the attempts it checks who leads: another coordinator may have repaired the epoch, or finished it and pruned its
markers. What an answer means for the epoch is decided in the machine.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.engine.settings import EngineSettings
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.participants import Participants
from tpc.effects import Commit
from tpc.errors import FencedError, TpcError, TransientError, UnknownOutcomeError
from tpc.events import Answered, Event, Failed, Superseded
from tpc.sink import Outcome, Verdict

logger = logging.getLogger(__name__)

_DOUBLINGS_MAX = 60
"""Of a pause: beyond any bound that is set by then. A float takes some thousand, as many as attempts in a night."""


class Commits:
    """Carries out `Commit`."""

    def __init__(
        self,
        journal: Journal,
        participants: Participants,
        clock: Clock,
        settings: EngineSettings,
        stopping: threading.Event,
    ) -> None:
        self.journal = journal
        self.participants = participants
        self.clock = clock
        self.settings = settings
        self.stopping = stopping
        self._began_at = clock.monotonic()
        self._unknown: Mapping[str, Outcome] = {}
        """What the last attempt has left open."""

    def commit(self, effect: Commit) -> Event:
        """One attempt: after a pause, if it is not the first."""
        if effect.attempt:
            not_tried = self._wait_for_turn(effect)
            if not_tried is not None:
                return not_tried
        else:
            self._began_at = self.clock.monotonic()
            self.participants.commit_seconds.clear()
        try:
            identities = self.journal.history.sinks
            given_up = self.participants.give_up(effect.manifest, effect.abandoned, identities)
            outcomes = self.participants.commit(effect.manifest, effect.handles)
        except TpcError as error:
            return Failed(error)
        if (
            not all(outcome.settled for outcome in outcomes.values())
            and (fenced := self._superseded(effect)) is not None
        ):
            return fenced
        self._unknown = {h: o for h, o in outcomes.items() if o.verdict is Verdict.UNKNOWN}
        self._warn(effect)
        return Answered(outcomes, given_up)

    def _wait_for_turn(self, effect: Commit) -> Event | None:
        """Pause before another attempt; what there is to say instead of it."""
        settings = self.settings
        doublings = min(effect.attempt - 1, _DOUBLINGS_MAX)
        delay_s = min(settings.retry_delay_max_s, settings.retry_delay_s * 2**doublings)
        if self.clock.wait(self.stopping, delay_s) or self._gave_up():
            return Failed(self._unfinished(effect))
        return self._superseded(effect)

    def _superseded(self, effect: Commit) -> Superseded | Failed | None:
        """Whether another coordinator leads, who may have repaired the epoch, or finished it and pruned its markers.

        `Failed` where the log is gone or damaged: in another one, somebody else may decide.
        """
        try:
            self.journal.require_leading()
        except FencedError as error:
            return Superseded.by(error)
        except TransientError as error:
            logger.warning("epoch %d is decided; the log cannot be read: %s", effect.manifest.epoch, error.what)
        except TpcError as error:
            return Failed(error)
        return None

    def _gave_up(self) -> bool:
        limit_s = self.settings.finish_timeout_s
        return limit_s is not None and self.clock.monotonic() - self._began_at > limit_s

    def _unfinished(self, effect: Commit) -> UnknownOutcomeError:
        evidence = next((outcome.evidence for outcome in self._unknown.values()), "")
        return UnknownOutcomeError(
            f"{len(effect.handles)} branches of a decided epoch are not committed: {evidence}",
            pipeline=str(self.participants.pipeline),
            epoch=effect.manifest.epoch,
        )

    def _warn(self, effect: Commit) -> None:
        if self._unknown:
            handle, outcome = next(iter(self._unknown.items()))
            logger.warning(
                "epoch %d is decided; %d branches are not committed yet (attempt %d), first %s: %s. Trying again.",
                effect.manifest.epoch,
                len(self._unknown),
                effect.attempt + 1,
                handle,
                outcome.evidence,
            )
