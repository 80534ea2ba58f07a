"""The loop: an event goes into the machine, its effects are carried out, and what they answer are the next events.

The engine meets the log, the sinks and the pass only through `effects`, and decides nothing.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.engine.effects import Performer
from tpc.coordinator.kernel.engine.runner import EpochRunner
from tpc.coordinator.kernel.engine.settings import EngineSettings
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.kernel.participants import Participants
from tpc.coordinator.kernel.transition import Observer, Transition, nobody
from tpc.errors import FencedError
from tpc.events import BatchStarted, Event, Opened, RenewalDue, SweepDue
from tpc.machine import step
from tpc.safety import holds, stated
from tpc.states import Phase, State

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
        self.state = State(participants.pipeline)
        self._acted_in = self.state
        """The state in which the last event came; where the machine has stopped, that in which it failed."""
        self.observe: Observer = nobody
        self.stopping = threading.Event()
        self._performer = Performer(journal, participants, clock, settings, parked, self.stopping)
        self._lock = threading.RLock()

    @property
    def claim(self) -> dict[str, Any]:
        """What the shell adds to every generation record: the sinks' identities, Spark's query id."""
        return self._performer.puts.claim

    @claim.setter
    def claim(self, claim: dict[str, Any]) -> None:
        self._performer.puts.claim = claim

    # What others ask for ---------------------------------------------------------------------------------------

    def recover(self) -> int:
        """Take over: claim a generation, finish what is decided, sweep what is not. The journal must be open.

        Returns how many branches were aborted.
        """
        with self._lock, self.stating():
            self._performer.phases.begin()
            self._drive(Opened(self.journal.history))
            return self._performer.swept_count

    def claim_and_sweep(self) -> int:
        """Take over and sweep, leaving the decided epoch as it is; how many branches were aborted."""
        with self._lock, self.stating():
            self._drive(Opened(self.journal.history, finish=False))
            return self._performer.swept_count

    def begin_again(self) -> bool:
        """Forget a claim that was not stored; False when this coordinator has led already."""
        if self.state.phase is not Phase.STOPPED or self._performer.puts.has_led:
            return False
        self.state = State(self.participants.pipeline)
        return True

    def run_batch(self, epoch: int, runner: EpochRunner) -> None:
        """One call of Spark's batch function. Returns when the epoch is complete; raises what stopped it."""
        with self._lock, self.stating():
            self._performer.runner = runner
            self._performer.phases.begin()
            try:
                self._drive(BatchStarted(epoch, self.journal.history.manifests.get(epoch)))
                self._upkeep(after_repeated_tasks=runner.repeated_tasks)
            finally:
                self._performer.runner = None

    def clock_phase(self, name: str) -> None:
        """The current epoch's phase `name` ends now; for the pass, whose phases are counted with the others."""
        self._performer.phases.end(name)

    def upkeep(self) -> None:
        """Sweep if it is time to, and begin a new term; for quiet hours, when no batch comes."""
        with self._lock, self.stating():
            if self.state.phase is Phase.READY:
                self._upkeep(after_repeated_tasks=False)

    def stop(self) -> None:
        """Give up waiting for systems that are down, and return when no epoch is being worked on."""
        self.stopping.set()
        with self._lock:
            logger.debug("no epoch is being worked on")

    @contextmanager
    def stating(self) -> Iterator[None]:
        """An error that leaves from here says what holds in the phase it leaves in. Errors around the engine, too."""
        with stated(self._holds):
            yield

    def fenced(self) -> FencedError | None:
        """How the log shows that another coordinator leads; None while it shows nothing of it, or cannot be asked.

        Nor while an epoch is worked on: a record that is just being put is not known here, and looks like another's.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            with self.stating():
                self.journal.require_leading()
        except FencedError as fenced:
            return fenced
        except Exception as error:  # noqa: BLE001  whoever asks has an error of his own to tell
            logger.debug("it cannot be asked who leads: %s", error)
        finally:
            self._lock.release()
        return None

    def _holds(self, error: Exception) -> str:
        state = self.state
        if state.phase is Phase.STOPPED:
            return holds(self._acted_in, state.failure or error)  # what is asked of it later changes nothing in that
        if state.phase is Phase.NEW:
            history = self.journal.history
            state = replace(state, pending=history.pending, last_complete=history.last_complete)
        return holds(state, error)

    # The loop --------------------------------------------------------------------------------------------------

    def _drive(self, event: Event) -> None:
        events: deque[Event] = deque([event])
        while events:
            before, event = self.state, events.popleft()
            self.state, effects = step(before, event)
            self._acted_in = before
            seconds = self._performer.phases.seconds
            self.observe(Transition(before, event, self.state, effects, self.journal.history, seconds))
            for effect in effects:
                answer = self._performer.perform(effect, self.state)
                if answer is not None:
                    events.append(answer)

    def _upkeep(self, *, after_repeated_tasks: bool) -> None:
        due = self._performer.upkeep
        if due.is_sweep_due() or after_repeated_tasks:
            self._performer.may_sweep_later = True
            try:
                self._drive(SweepDue())
            finally:
                self._performer.may_sweep_later = False
        if due.is_renewal_due(self.journal.history):
            self._drive(RenewalDue())
