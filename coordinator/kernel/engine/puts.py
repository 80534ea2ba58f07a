"""Puts the machine's records into the log, with what the engine adds to them: identities, times, what is carried over.

A put that was not answered is repeated, identically, until the log says its outcome.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from tpc import failpoints
from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.engine.settings import EngineSettings
from tpc.coordinator.kernel.engine.times import PhaseClock
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.participants import Participants
from tpc.effects import PutRecord
from tpc.errors import (
    DecisionUnknownError,
    FencedError,
    PutUnknownError,
    SlotTakenError,
    TpcError,
    TransientError,
)
from tpc.events import Event, Failed, Stored, Superseded
from tpc.records import Record, RecordKind
from tpc.states import MachineState

logger = logging.getLogger(__name__)


class Puts:
    """Carries out `PutRecord`."""

    def __init__(
        self,
        journal: Journal,
        participants: Participants,
        clock: Clock,
        settings: EngineSettings,
        phases: PhaseClock,
        stopping: threading.Event,
    ) -> None:
        self.journal = journal
        self.participants = participants
        self.clock = clock
        self.settings = settings
        self.phases = phases
        self.stopping = stopping
        self.generation_fields: dict[str, Any] = {}
        """What the engine adds to every generation record: sinks' identities, columns, sources, the runtime's id."""
        self.has_led = False
        """Whether a term of this coordinator is in the log."""
        self.sink_seconds: Mapping[str, Mapping[str, float]] = {}
        """How long each sink took in the pass of the current epoch (`PassReport`); empty in a recovery."""
        self._last_complete: dict[str, Any] | None = None
        """How long the last complete record took; it can only stand in the next one."""

    def put(self, effect: PutRecord, state: MachineState) -> Event:
        """One record. `Superseded` when another coordinator has its slot, `Failed` when nobody knows or it cannot."""
        body = dict(effect.body)
        if effect.kind is RecordKind.GENERATION:
            carried = self.journal.history.carried(self.participants.sinks, self.settings.keep_epochs)
            body |= {**carried, **self.generation_fields, "started_at": self.clock.wall()}
            if self.has_led:  # epochs may have read what was not there when it was claimed
                body["sources"] = carried["sources"]
            failpoints.hit("recovery.claim", generation=body["generation"])
        elif effect.kind is RecordKind.INTENT:
            self.phases.end("verify")
            failpoints.hit("epoch.prepared", epoch=body["epoch"])
        elif effect.kind is RecordKind.COMPLETE:
            self.phases.end("commit")
            failpoints.hit("epoch.committed", epoch=body["epoch"])
            body |= self._complete_body(state)
        try:
            self._put_until_known(self.journal.next_record(effect.kind, body))
        except FencedError as error:
            return Superseded.by(error)
        except TpcError as error:
            return Failed(error.located(pipeline=str(state.pipeline), epoch=state.epoch))
        self._after_put(effect.kind, body)
        return Stored()

    def _put_until_known(self, record: Record) -> None:
        """Put the identical record until the log says its outcome, or for `log_timeout_s`."""
        settings, started = self.settings, self.clock.monotonic()
        delay_s, is_open = settings.retry_delay_s, False
        while True:
            try:
                return self.journal.put(record)
            except SlotTakenError as error:
                if is_open:  # what stands there now may have come later than what was put before
                    raise FencedError(error.what, **error.details) from error
                raise
            except (PutUnknownError, TransientError) as error:
                if isinstance(error, TransientError) and not is_open:
                    raise
                is_open = True
                if self.clock.monotonic() - started + delay_s > settings.log_timeout_s:
                    raise PutUnknownError(f"slot {record.slot} of the log may be durable: {error.what}") from error
                logger.warning("slot %d of the log: %s. Putting the same record again.", record.slot, error.what)
            if self.clock.wait(self.stopping, delay_s):
                raise DecisionUnknownError(f"slot {record.slot} of the log: stopped before its put was answered")
            delay_s = min(settings.retry_delay_max_s, 2 * delay_s)

    def _complete_body(self, state: MachineState) -> dict[str, Any]:
        return {
            "started_at": self.phases.started_at,
            "completed_at": self.clock.wall(),
            "seconds": {name: round(value, 6) for name, value in self.phases.seconds.items()},
            "commit_seconds": {n: round(s, 6) for n, s in self.participants.commit_seconds.items()},
            "sink_seconds": self.sink_seconds,
            "commit_attempts": state.attempt,
            "previous_complete": self._last_complete,
            "floor": self.journal.history.floor,
        }

    def _prune(self) -> None:
        """Nobody waits for the room: what stays below the floor is never read, and the next term tries again."""
        try:
            self.journal.prune()
        except TpcError as error:
            logger.warning("%s. The pipeline goes on; the next generation record tries it again.", error.what)

    def _after_put(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        if kind is RecordKind.GENERATION:
            self.has_led = True
            self._prune()
            failpoints.hit("recovery.claimed", generation=body["generation"])
        elif kind is RecordKind.INTENT:
            self.phases.end("intent")
            failpoints.hit("epoch.decided", epoch=body["epoch"])
        elif kind is RecordKind.COMPLETE:
            self.phases.end("complete")
            self._last_complete = {"epoch": body["epoch"], "seconds": round(self.phases.seconds["complete"], 6)}
            failpoints.hit("epoch.completed", epoch=body["epoch"])
