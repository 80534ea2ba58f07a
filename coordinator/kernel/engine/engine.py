"""An event goes into the machine, its effects are carried out, and their answers are the next events.

The engine reaches the log and the sinks only through `effects`, and decides nothing. The pass over an epoch's rows is
run by the runtime, in the body of `Engine.epoch`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.engine.effects import EffectExecutor
from tpc.coordinator.kernel.engine.epoch import Epoch
from tpc.coordinator.kernel.engine.settings import EngineSettings
from tpc.coordinator.kernel.engine.successor_watch import Cancellable
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.kernel.participants import Participants
from tpc.coordinator.kernel.transition import Observer, Transition, nobody
from tpc.data_status import annotate_errors, data_status
from tpc.effects import MachineEffect, ReplayEpoch, WriteEpoch
from tpc.errors import FencedError, LeadershipUnknownError, TpcError
from tpc.events import BatchStarted, Event, Opened, RenewalDue, SweepDue
from tpc.machine import step
from tpc.states import MachineState, Phase

logger = logging.getLogger(__name__)


class Engine:
    """One coordinator's term and its successors in the same process. Not re-entrant; guarded by its own lock."""

    def __init__(
        self,
        journal: Journal,
        participants: Participants,
        clock: Clock,
        settings: EngineSettings,
        parked: ParkedNote,
    ) -> None:
        self.journal = journal
        self.participants = participants
        self.settings = settings
        self.state = MachineState(participants.pipeline)
        self._acted_in = self.state
        """The state in which the last event came; where the machine has stopped, that in which it failed."""
        self._effects: deque[MachineEffect] = deque()
        """What the machine has asked for and is not carried out yet."""
        self._pass_wanted: WriteEpoch | ReplayEpoch | None = None
        """The effect that a runtime carries out, from the begin of an epoch on."""
        self.observe: Observer = nobody
        self.stopping = threading.Event()
        self.executor = EffectExecutor(journal, participants, clock, settings, parked, self.stopping)
        self._lock = threading.RLock()

    @property
    def generation_fields(self) -> dict[str, Any]:
        """What the engine adds to every generation record: sinks' identities, and the runtime's id as `query_id`."""
        return self.executor.puts.generation_fields

    @generation_fields.setter
    def generation_fields(self, fields: dict[str, Any]) -> None:
        self.executor.puts.generation_fields = fields

    # What others ask for ---------------------------------------------------------------------------------------

    def recover(self) -> int:
        """Take over: claim a generation, finish what is decided, sweep what is not. The journal must be open.

        Returns how many branches were aborted.
        """
        with self._lock, self.annotate_errors():
            self.executor.phases.begin()
            self.drive(Opened(self.journal.history))
            return self.executor.swept_count

    def claim_and_sweep(self) -> int:
        """Take over and sweep, leaving the decided epoch as it is; how many branches were aborted."""
        with self._lock, self.annotate_errors():
            self.drive(Opened(self.journal.history, finish=False))
            return self.executor.swept_count

    def begin_again(self) -> bool:
        """Forget a claim that was not stored; False when this coordinator has led already."""
        if self.state.phase is not Phase.STOPPED or self.has_led:
            return False
        self.state = MachineState(self.participants.pipeline)
        return True

    @contextmanager
    def epoch(self, number: int, epoch_pass: Cancellable) -> Iterator[Epoch]:
        """Epoch `number`; the body runs `epoch_pass`, decides and finishes (see `Epoch`).

        Until the pass has ended, a thread watches who leads, and cancels it when another coordinator does. An error
        that leaves the body aborts the epoch, unless a put of its intent was attempted. Raises what has stopped it.
        """
        with self._lock, self.annotate_errors():
            self.executor.phases.begin()
            self.drive(BatchStarted(number, self.journal.history.manifests.get(number)))
            assert self._pass_wanted is not None
            epoch = Epoch(self, self._pass_wanted)
            self.executor.watch_over(epoch_pass, self.state)
            try:
                yield epoch
                epoch.require_finished()
            except Exception as error:
                epoch.fail(error)
                raise
            finally:
                self.executor.watch.end()
                self.drop_waiting()  # of an interrupt: the next call must not carry out what this one has left

    def upkeep(self) -> None:
        """Sweep if it is time to, and begin a new term; for quiet hours, when no epoch begins."""
        with self._lock, self.annotate_errors():
            if self.state.phase is Phase.READY:
                self.tidy_up(after_repeated_tasks=False)

    def stop(self) -> None:
        """Give up waiting for systems that are down, and return when no epoch is being worked on."""
        self.stopping.set()
        with self._lock:
            logger.debug("no epoch is being worked on")

    @property
    def has_led(self) -> bool:
        """Whether a term of this coordinator is in the log: one that has put none cannot be overtaken."""
        return self.executor.puts.has_led

    @contextmanager
    def annotate_errors(self) -> Iterator[None]:
        """Around the engine, and around what a runtime does beside it: an error leaves as what is to be told of it.

        That is `FencedError` where another coordinator leads, and else what holds in the phase it leaves in.
        """
        with annotate_errors(self._data_status):
            try:
                yield
            except Exception as error:
                told = self._told(error)
                if told is error:
                    raise
                raise told from error

    def _told(self, error: Exception) -> Exception:
        """What is to be told of `error`: see `Leadership.instead_of`. A start that has put no term cannot be fenced."""
        if not self.has_led or not self._lock.acquire(timeout=self.executor.leadership.timeout_s):
            return error  # who works on an epoch in another thread asks for itself
        try:
            told = self.executor.leadership.instead_of(error)
            if told is not error and isinstance(told, TpcError):
                told.located(pipeline=str(self.participants.pipeline), epoch=self.state.epoch)
            return told
        finally:
            self._lock.release()

    def require_leading(self) -> None:
        """As `Leadership.require`, when no epoch is worked on and no term is being renewed.

        A record that is just being put is not known here yet, and looks like another's.
        """
        with self._lock:
            self.executor.leadership.require()

    def fenced(self) -> FencedError | None:
        """How the log shows that another coordinator leads; None while it shows nothing of it, or cannot be asked.

        Nor while an epoch is worked on: a record that is just being put is not known here, and looks like another's.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            with annotate_errors(self._data_status):
                self.executor.leadership.require()
        except FencedError as fenced:
            return fenced
        except Exception as error:  # noqa: BLE001  whoever asks has an error of his own to tell
            logger.debug("the current leader is unknown: %s", error)
        finally:
            self._lock.release()
        return None

    def _data_status(self, error: Exception) -> str:
        state = self.state
        if isinstance(error, LeadershipUnknownError) and isinstance(error.__cause__, Exception):
            error = error.__cause__  # the phase knows what that one means
        if state.phase is Phase.STOPPED:
            # What is asked of it later changes nothing in that.
            failure = error if isinstance(error, FencedError) else state.failure or error
            return data_status(self._acted_in, failure)
        if state.phase is Phase.NEW:
            history = self.journal.history
            state = replace(state, pending=history.pending, last_complete=history.last_complete)
        return data_status(state, error)

    # The machine --------------------------------------------------------------------------------------------------

    def drive(self, event: Event | None = None, *, pause_in: Collection[Phase] = ()) -> None:
        """Put `event` into the machine, and carry out what it asks for until it asks for nothing more.

        Where it comes to a phase of `pause_in`, what it asks for there waits for the next call. Raises the error with
        which it stops.
        """
        events: deque[Event] = deque(() if event is None else (event,))
        try:
            while events or self._effects:
                while self._effects:
                    answer = self._carry_out(self._effects.popleft())
                    if answer is not None:
                        events.append(answer)
                if events:
                    self._step(events.popleft())
                    if self.state.phase in pause_in:
                        return
        except BaseException:
            self._effects.clear()
            raise

    def drop_waiting(self) -> None:
        """What waits since the last pause is not carried out: the coordinator ends, and the next start does it."""
        self._effects.clear()

    def _step(self, event: Event) -> None:
        before = self.state
        self.state, effects = step(before, event)
        self._acted_in = before
        self._effects.extend(effects)
        seconds = self.executor.phases.seconds
        self.observe(Transition(before, event, self.state, effects, self.journal.history, seconds))

    def _carry_out(self, effect: MachineEffect) -> Event | None:
        if isinstance(effect, (WriteEpoch, ReplayEpoch)):
            self._pass_wanted = effect
            return None
        return self.executor.carry_out(effect, self.state)

    def tidy_up(self, *, after_repeated_tasks: bool) -> None:
        """Sweep if it is time to, or if losers may have left branches; begin a new term if it is due."""
        due = self.executor.upkeep
        if due.is_sweep_due() or after_repeated_tasks:
            self.executor.may_sweep_later = True
            try:
                self.drive(SweepDue())
            finally:
                self.executor.may_sweep_later = False
        if due.is_renewal_due(self.journal.history):
            self.drive(RenewalDue())
