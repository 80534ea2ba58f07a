"""Makes one attempt per `Commit` effect to commit what is left of a decided epoch.

The machine asks again while an outcome is unknown (`tpc/machine.py`: `_answered`); here is the pause before that.
Between attempts it is checked who leads: another coordinator may have repaired the epoch, or finished it and pruned its
markers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.engine.leadership import Leadership
from tpc.coordinator.kernel.engine.settings import EngineSettings
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.participants import Participants
from tpc.effects import Commit
from tpc.errors import FencedError, TpcError, TransientError, UnknownOutcomeError
from tpc.events import Answered, Event, Failed, Superseded
from tpc.handles import Handle
from tpc.sink import Outcome, Verdict

logger = logging.getLogger(__name__)

_DOUBLINGS_MAX = 60
"""Of a pause: beyond any bound that is set by then. A float takes some thousand, as many as attempts in a night."""


class CommitRetries:
    """Carries out `Commit`."""

    def __init__(
        self,
        journal: Journal,
        leadership: Leadership,
        participants: Participants,
        clock: Clock,
        settings: EngineSettings,
        stopping: threading.Event,
    ) -> None:
        self.journal = journal
        self.leadership = leadership
        self.participants = participants
        self.clock = clock
        self.settings = settings
        self.stopping = stopping
        self._began_at = clock.monotonic()
        self._unknown: Mapping[str, Outcome] = {}
        """What the last attempt has left open."""

    def commit(self, effect: Commit) -> Event:
        """One attempt: after a pause, if it is not the first. Raises what a sink raises, and where it gives up."""
        if effect.attempt:
            not_tried = self._wait_for_turn(effect)
            if not_tried is not None:
                return not_tried
        else:
            self._began_at = self.clock.monotonic()
            self.participants.commit_seconds.clear()
        identities = self.journal.history.sinks
        given_up = self.participants.give_up(effect.manifest, effect.given_up, identities)
        outcomes = self.participants.commit(effect.manifest, effect.handles)
        if not all(outcome.settled for outcome in outcomes.values()):
            try:
                ended = self._superseded()
            except TransientError as error:
                self._warn_unread(effect, error)
                outcomes = {handle: _not_told(outcome) for handle, outcome in outcomes.items()}
            else:
                if ended is not None:
                    return ended
        self._unknown = {h: o for h, o in outcomes.items() if o.verdict is Verdict.UNKNOWN}
        self._warn(effect)
        return Answered(outcomes, given_up)

    def _wait_for_turn(self, effect: Commit) -> Event | None:
        """Pause before another attempt; what there is to say instead of it."""
        settings = self.settings
        doublings = min(effect.attempt - 1, _DOUBLINGS_MAX)
        delay_s = min(settings.retry_delay_max_s, settings.retry_delay_s * 2**doublings)
        if self.clock.wait(self.stopping, delay_s) or self._gave_up():
            raise self._unfinished(effect)
        try:
            return self._superseded()
        except TransientError as error:
            self._warn_unread(effect, error)
            return None

    def _superseded(self) -> Superseded | Failed | None:
        """Whether another coordinator leads, who may have repaired the epoch, or finished it and pruned its markers.

        `Failed` where the log is gone or damaged: in another one, somebody else may decide. Raises `TransientError`
        where the log does not say.
        """
        try:
            self.leadership.require()
        except FencedError as error:
            return Superseded.by(error)
        except TransientError:
            raise
        except TpcError as error:
            return Failed(error)
        return None

    def _warn_unread(self, effect: Commit, error: TransientError) -> None:
        logger.warning("epoch %d is decided; the log cannot be read: %s", effect.manifest.epoch, error.what)

    def _gave_up(self) -> bool:
        limit_s = self.settings.finish_timeout_s
        return limit_s is not None and self.clock.monotonic() - self._began_at > limit_s

    def _unfinished(self, effect: Commit) -> UnknownOutcomeError:
        handle, evidence = next(((h, outcome.evidence) for h, outcome in self._unknown.items()), (None, ""))
        return UnknownOutcomeError(
            f"{len(effect.handles)} branches of a decided epoch are not committed: {evidence}",
            pipeline=str(self.participants.pipeline),
            epoch=effect.manifest.epoch,
            sink=None if handle is None else Handle.parse(handle).sink,
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


def _not_told(outcome: Outcome) -> Outcome:
    """A refusal or a loss may come of what another coordinator has done: while that is unknown it is asked again."""
    return outcome if outcome.settled else Outcome(Verdict.UNKNOWN, outcome.evidence)
