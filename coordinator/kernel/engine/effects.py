"""Carries out the machine's effects against the log and the sinks, one at a time, and says what happened.

The order of effects, and what follows from an event, is the machine's. `puts` and `commits` have modules of their own.
`WriteEpoch` and `ReplayEpoch` are carried out by the runtime (`epoch`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tpc import failpoints
from tpc.abort_rules import AbortRules, AbortScope
from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.engine.commit_retries import CommitRetries
from tpc.coordinator.kernel.engine.leadership import Leadership
from tpc.coordinator.kernel.engine.puts import Puts
from tpc.coordinator.kernel.engine.settings import EngineSettings
from tpc.coordinator.kernel.engine.successor_watch import Cancellable, SuccessorWatch
from tpc.coordinator.kernel.engine.times import PhaseClock, UpkeepClock
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.kernel.participants import Participants
from tpc.effects import (
    AbortEpoch,
    Commit,
    MachineEffect,
    PutRecord,
    Release,
    Return,
    Stop,
    Sweep,
    TakeOwnership,
    Verify,
    Warn,
)
from tpc.errors import (
    FencedError,
    OperatorActedError,
    ParkedError,
    TpcError,
    TransientError,
)
from tpc.events import Aborted, Event, Failed, Owned, Superseded, Swept, Verified
from tpc.manifest import Manifest
from tpc.sink import Owner
from tpc.states import MachineState, Phase

logger = logging.getLogger(__name__)


_ASKED_OF_SINKS = (TakeOwnership, Verify, Sweep, Commit)
_ANY_FAILURE_ALIKE = frozenset({Phase.SWEEPING, Phase.VERIFYING})
"""Phases in which the machine knows no `Superseded`: it ends there, or aborts the epoch, which asks again who leads."""


class EffectExecutor:
    """Carries out every kind of effect but those that ask for a pass."""

    def __init__(
        self,
        journal: Journal,
        participants: Participants,
        clock: Clock,
        settings: EngineSettings,
        parked: ParkedNote,
        stopping: threading.Event,
    ) -> None:
        self.journal = journal
        self.participants = participants
        self.clock = clock
        self.parked = parked
        self.phases = PhaseClock(clock)
        self.upkeep = UpkeepClock(clock, settings)
        self.leadership = Leadership(journal, clock)
        self.puts = Puts(journal, participants, clock, settings, self.phases, stopping)
        self.commits = CommitRetries(journal, self.leadership, participants, clock, settings, stopping)
        self.watch = SuccessorWatch(self.leadership, settings.watch_interval_s)
        self.swept_count = 0
        """How many branches the last sweep has aborted."""
        self.may_sweep_later = False
        """Whether a sweep that fails may wait for the next one."""
        self._handlers: Mapping[type[Any], Callable[[Any, MachineState], Event | None]] = {
            PutRecord: self.puts.put,
            TakeOwnership: self._own,
            Commit: lambda effect, _: self.commits.commit(effect),
            Sweep: self._sweep,
            Verify: self._verify,
            AbortEpoch: self._abort,
            Release: self._release,
            Warn: self._warn,
            Return: self._return,
            Stop: self._stop,
        }

    def carry_out(self, effect: MachineEffect, state: MachineState) -> Event | None:
        """Do what `effect` asks for; what happened, where the machine wants to know. Raises the error of a `Stop`.

        An error of a sink is an event only once it is known who leads.
        """
        try:
            return self._handlers[type(effect)](effect, state)
        except Exception as error:
            if not isinstance(effect, _ASKED_OF_SINKS):
                raise
            return self.failed(located(error, state), state)

    def failed(self, error: Exception, state: MachineState) -> Failed | Superseded:
        """The event of an error: that another coordinator leads, where the log shows it."""
        told = self.leadership.instead_of(error)
        if not isinstance(told, FencedError):
            return Failed(error)  # that leadership is unknown is said where the error leaves the engine
        return Failed(located(told, state)) if state.phase in _ANY_FAILURE_ALIKE else Superseded.by(told)

    # During a pass ---------------------------------------------------------------------------------------------

    def watch_over(self, epoch_pass: Cancellable, state: MachineState) -> None:
        """Watch, until `watch.end`, who leads, and whether branches of dead coordinators hold up the pass."""
        older = replace(_abort_rules(state, state.pending), scope=AbortScope.OLDER_GENERATIONS)
        history, leading = self.journal.history, self.leadership.require
        self.watch.begin(epoch_pass, lambda: self.participants.sweep_held_up(older, history, leading))

    def seen_fenced(self, error: Exception | None = None) -> Superseded | None:
        """Whether another coordinator was seen to lead, by the watch or by the `error` that ended the pass."""
        seen = error if isinstance(error, FencedError) else self.watch.fenced
        if isinstance(seen, OperatorActedError):
            try:
                self.leadership.require()  # another coordinator may have begun since the watch has looked
            except FencedError as newer:
                seen = newer
            except TpcError as unread:
                logger.debug("who leads cannot be looked at again: %s", unread)
        elif seen is None and error is not None:
            told = self.leadership.instead_of(error)
            seen = told if isinstance(told, FencedError) else None
        return None if seen is None else Superseded.by(seen)

    # The sinks -------------------------------------------------------------------------------------------------

    def _own(self, effect: TakeOwnership, state: MachineState) -> Event:
        history = self.journal.history
        owner = Owner(effect.generation, history.owners[effect.generation], self.clock.wall())
        self.participants.take_ownership(owner, history)
        self.upkeep.owned()
        failpoints.hit("recovery.owned", generation=effect.generation)
        if state.last_complete is not None:
            self._tell_complete(state.last_complete)
        return Owned()

    def _verify(self, effect: Verify, _: MachineState) -> Event:
        self.participants.verify(effect.manifest, self.journal.history)
        return Verified()

    def _sweep(self, effect: Sweep, state: MachineState) -> Event:
        self.upkeep.swept()
        try:
            failpoints.hit("recovery.sweep", generation=effect.generation)
            # No error is told here, and a log may take its time: it has a deadline of its own.
            rules, leading = _abort_rules(state, effect.manifest), self.journal.require_leading
            count = self.participants.sweep(rules, self.journal.history, leading)
        except TransientError as error:
            if not self.may_sweep_later:
                raise
            logger.warning("leftovers of dead tasks cannot be swept now, again in a while: %s", error.what)
            return Swept(0)
        self.swept_count = count
        failpoints.hit("recovery.swept", generation=effect.generation, count=count)
        return Swept(count)

    def _abort(self, effect: AbortEpoch, state: MachineState) -> Event:
        rules = _abort_rules(state, effect.spare, failed_epoch=effect.epoch)
        try:
            if effect.fenced:
                self.participants.undo_own_epoch(replace(rules, scope=AbortScope.OWN_EPOCH))
            else:
                self.participants.sweep(rules, self.journal.history, self.leadership.require)
        except FencedError as error:
            return Superseded.by(error)
        except Exception:  # what has ended the epoch is what is to be raised
            logger.exception("epoch %d could not be undone everywhere; the next start does it", effect.epoch)
        return Aborted()

    def _release(self, effect: Release, _: MachineState) -> None:
        self.parked.remove()
        try:
            self.participants.release(effect.manifest, effect.undone)
        except Exception:  # nothing rests on it, and the epoch is complete whatever a sink says
            logger.exception("epoch %d is complete; a sink could not tidy up after it", effect.manifest.epoch)
        self._tell_complete(effect.manifest.epoch)

    def _tell_complete(self, epoch: int) -> None:
        try:
            self.participants.completed(epoch)
        except Exception:  # as above
            logger.exception("epoch %d is complete; a sink could not go on from there", epoch)

    # Who waits for the epoch -----------------------------------------------------------------------------------

    def _warn(self, effect: Warn, _: MachineState) -> None:
        logger.warning("%s", effect.message)

    def _return(self, effect: Return, _: MachineState) -> None:
        logger.debug("epoch %d returns to the runtime", effect.epoch)

    def _stop(self, effect: Stop, _: MachineState) -> None:
        if isinstance(effect.error, ParkedError):
            self.parked.keep(effect.error)
        raise effect.error


def _abort_rules(state: MachineState, named: Manifest | None, *, failed_epoch: int | None = None) -> AbortRules:
    return AbortRules(state.pipeline, state.generation, state.last_complete, named, failed_epoch)


def located(error: Exception, state: MachineState) -> Exception:
    """`error` with the pipeline and the epoch that it is about, where it can say so."""
    if isinstance(error, TpcError):
        return error.located(pipeline=str(state.pipeline), epoch=state.epoch)
    return error
