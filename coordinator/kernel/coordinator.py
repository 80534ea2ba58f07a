"""One process's claim on a pipeline: log, sinks and engine put together, whichever runtime computes the epochs.

`recover` is recovery up to the point where the runtime may start: everything checked, the decided epoch finished,
what is not decided swept. `tpc recover`, `tpc sweep` and `tpc in-doubt` use the same object.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor

from tpc.consistency import joins_again
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.clock import Clock, SystemClock
from tpc.coordinator.kernel.engine import Engine, EngineSettings
from tpc.coordinator.kernel.heartbeat import this_process
from tpc.coordinator.kernel.listeners import Listeners
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.kernel.participants import Participants
from tpc.coordinator.kernel.preflight import Preflight
from tpc.coordinator.kernel.runtime import Runtime
from tpc.coordinator.kernel.wanted_inputs import WantedInputs, rows_claimed
from tpc.errors import ConfigurationError, FencedError
from tpc.handles import PipelineId
from tpc.history import History
from tpc.json import JSONObject
from tpc.schemas import Columns
from tpc.sink import CheckContext, Sink
from tpc.support.stopped_lock_holder import kill_stopped_lock_holder

logger = logging.getLogger(__name__)


class Coordinator:
    """What leads a pipeline, in one process. `lock`, then `recover` once, then `engine.epoch` per epoch.

    The keyword arguments are for simulations: other time, another way to run the sinks' calls.
    """

    def __init__(
        self,
        pipeline: PipelineId,
        sinks: Iterable[Sink],
        log: Log,
        runtime: Runtime,
        settings: EngineSettings,
        *,
        clock: Clock | None = None,
        journal: Journal | None = None,
        pool: Executor | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.runtime = runtime
        self.checkpoint = runtime.checkpoint
        self.journal = journal or Journal(log)
        self.participants = Participants(pipeline, sinks, pool)
        self.preflight = Preflight(pipeline, self.journal, self.participants, runtime)
        clock = clock or SystemClock()
        self.engine = Engine(self.journal, self.participants, clock, settings, ParkedNote(self.checkpoint.notes))
        self._lock = CheckpointLock(self.checkpoint.notes, of=str(self.checkpoint))
        self.observing = Listeners(clock, ())
        self._schemas: Mapping[str, Columns] | None = None
        """The columns that this start wants; None: it writes no rows, and what is on record stays there."""
        self._void_damage: JSONObject | None = None
        """An operator's decision that the damaged end of the log has decided nothing, as it goes on record."""
        self.inputs: WantedInputs | None = None
        """What this start reads; None as with the columns."""

    def observed_by(self, observing: Listeners) -> None:
        """Have `observing` told of every step of the machine, and closed with this coordinator."""
        self.engine.observe = self.observing = observing

    def lock(self, *, takeover: bool = False) -> None:
        """Take the checkpoint's advisory lock, with `takeover` past another process, which may be ended for it."""
        with self.engine.annotate_errors():
            self._lock.acquire(takeover=takeover)
            if takeover:
                sinks = self.participants.sinks.values()
                of_sinks = [path for sink in sinks for path in sink.locked_files()]
                kill_stopped_lock_holder(
                    self._lock.path, self._lock.before, [*self.journal.log.locked_files(), *of_sinks]
                )
                self._lock.retake()  # before a supervisor starts again whom that has ended

    def hold(self) -> None:
        """Between epochs, when no record is put: raises `FencedError` when somebody has taken over."""
        with self.engine.annotate_errors():
            self._lock.hold(self.journal.require_leading)

    def upkeep(self) -> None:
        """Between epochs: sweep if it is time to, and hold the checkpoint's lock where this start has gone past it."""
        self._lock.retake()  # who held it may have ended, and its supervisor starts it again
        self.engine.upkeep()

    def read(self) -> History:
        """The log's history, with nothing asked or changed."""
        return self.preflight.read()

    def recover(self, contexts: Mapping[str, CheckContext], schemas: Mapping[str, Columns]) -> None:
        """Check everything, then claim a new generation, finish what is decided and sweep what is not.

        `schemas` are the columns of the rows for each sink; they go on record with the generation.
        """
        with self.engine.annotate_errors():
            self._check(contexts, schemas)
            self._claim()

    def check(self, contexts: Mapping[str, CheckContext], schemas: Mapping[str, Columns]) -> None:
        """Raise what `recover` refuses before it claims a generation. The sinks' checks may make their own tables."""
        with self.engine.annotate_errors():
            self._check(contexts, schemas)
            self._prepare_claim()
            self.preflight.check_owners()

    def _check(self, contexts: Mapping[str, CheckContext], schemas: Mapping[str, Columns]) -> None:
        self._schemas = schemas
        self.preflight.check_start(contexts, self.inputs, schemas)

    def finish(self, void_damage: JSONObject | None = None) -> int:
        """Finish what is decided and sweep what is not; no epoch will follow. Sinks are not checked for one.

        With `void_damage` (reason and operator) the damaged end of the log is voided, which the sinks cannot prove to
        have decided nothing; what they do report still stops it. Returns how many branches were aborted.
        """
        with self.engine.annotate_errors():
            history = self.preflight.read_with_targets()
            if void_damage is not None and not history.damaged:
                raise ConfigurationError(
                    "the end of the log is not damaged, so there is nothing to void",
                    pipeline=str(self.pipeline),
                    remedy="run `tpc recover` without --void-damaged-end.",
                )
            self._void_damage = void_damage
            return self._claim()

    def sweep_only(self) -> int:
        """Abort what no intent names, under a new generation; the decided epoch stays as it is."""
        with self.engine.annotate_errors():
            self.preflight.read_with_targets()
            return self._claim(recovers=False)

    def _claim(self, *, recovers: bool = True) -> int:
        """Claim a new generation; with `recovers` finish what is decided. Returns how many branches were aborted."""
        begin = self.engine.recover if recovers else self.engine.claim_and_sweep
        rejoining = self._prepare_claim()
        try:
            swept = begin()
        except FencedError:
            if not self._may_claim_again():
                raise
            logger.warning("a late record took the slot of the claim, and nobody leads: claiming again")
            rejoining = self._prepare_claim()
            swept = begin()
        for name in rejoining:
            logger.warning("sink %s was removed on the record; it joins again from the next epoch on", name)
        # Only now: somebody who lost the claim must not leave an id of his own behind.
        self.runtime.check_identity(self.journal.history)
        return swept

    def _may_claim_again(self) -> bool:
        """Whether the slot of the claim holds no newer term: a dead coordinator's put may arrive late.

        One that has led is not asked: reading the log again would take the successor's history for its own.
        """
        if self.engine.has_led:
            return False
        return self.read().generation < self.engine.state.generation and self.engine.begin_again()

    def _prepare_claim(self) -> list[str]:
        """Compare log, sinks and sources, and make the claim's record of what was found.

        Returns the names of the sinks that were removed before, and join again with this claim.
        """
        history, identities = self.preflight.check_claim(
            self.inputs, self._schemas or {}, void_unproven=self._void_damage is not None
        )
        self.engine.generation_fields = {
            "sinks": identities,
            "query_id": history.query_id or self.runtime.own_id() or str(uuid.uuid4()),
            **this_process(),
        }
        self._lock.require_not_taken_over()  # who took over while the sinks were asked must not be fenced by this claim
        if self._void_damage is not None:
            self.engine.generation_fields["voided_by"] = self._void_damage
        self.engine.generation_fields |= rows_claimed(history, self.runtime, self.inputs, self._schemas)
        return joins_again(history, identities)

    def tell_ready(self) -> None:
        """One line in the log: everything is recovered, and the next epoch may come."""
        state = self.engine.state
        next_epoch = 0 if state.last_decided is None else state.last_decided + 1
        logger.info(
            "pipeline %s is recovered and ready: generation %d, next epoch %d",
            *(self.pipeline, state.generation, next_epoch),
        )

    def close(self) -> None:
        """Let go of connections, and of the checkpoint's lock whatever the sinks say. Idempotent."""
        self.runtime.close()
        try:
            self.participants.close()
        finally:
            self.observing.close()
            self._lock.release()
