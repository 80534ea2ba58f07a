"""Runs the protocol's machine: carries out its effects in order and feeds back what happened.

The only place where the machine meets the log, the sinks, the clock and Spark. It decides nothing: what follows
what stands in `tpc.machine`. The pass over the data is handed in per batch (`EpochRunner`), so the same engine
runs under Spark and under a simulator.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tpc import failpoints
from tpc.coordinator.clock import Clock
from tpc.coordinator.log.journal import Journal
from tpc.coordinator.participants import Participants
from tpc.effects import (
    AbortEpoch,
    Commit,
    Effect,
    PutRecord,
    Release,
    ReplayEpoch,
    Return,
    Stop,
    Sweep,
    TakeOwnership,
    Verify,
    Warn,
    WriteEpoch,
)
from tpc.errors import (
    ConfigurationError,
    DataError,
    DecisionUnknownError,
    FencedError,
    PutUnknownError,
    StateMachineError,
    TpcError,
    TransientError,
    UnknownOutcomeError,
)
from tpc.events import (
    Aborted,
    Answered,
    BatchStarted,
    Event,
    Failed,
    Opened,
    Owned,
    Prepared,
    RenewalDue,
    Replayed,
    Stored,
    Superseded,
    SweepDue,
    Swept,
    Verified,
)
from tpc.machine import step
from tpc.manifest import Manifest
from tpc.records import Record, RecordKind
from tpc.sink import Outcome, Owner, Verdict
from tpc.states import Phase, State
from tpc.sweeping import Sweeper

logger = logging.getLogger(__name__)


class EpochRunner(Protocol):
    """The pass over one batch's data."""

    repeated_tasks: bool
    """Whether a task of the pass ran more than once, so that a loser's branch may exist."""

    @property
    def sink_seconds(self) -> Mapping[str, Mapping[str, float]]:
        """Per sink, how long the slowest task took to "write", to "flush" and to "prepare"."""

    def write(self, epoch: int, generation: int) -> Manifest:
        """Feed and prepare every sink; the manifest of what is prepared."""

    def replay(self, effect: ReplayEpoch) -> Replayed:
        """Run the data again for its state and digests, writing only the branches in `effect.lost`."""


@dataclass(frozen=True)
class EngineSettings:
    """Times in seconds. `keep_epochs` is the history kept in the log for people and for Spark's restart."""

    retry_delay_s: float = 0.05
    retry_delay_max_s: float = 30.0
    finish_timeout_s: float | None = None
    """Give up (without losing anything) when a decided epoch cannot be committed for so long; None: never."""
    sweep_interval_s: float = 30.0
    keep_epochs: int = 200
    renew_after_epochs: int = 200
    renew_after_s: float = 6 * 3600.0
    """A new term begins at least so often: `tpc orphans` takes a pipeline for dead that was silent for a day."""
    log_timeout_s: float = 300.0
    """How long a put of the log whose answer was lost is repeated before the process gives up."""


@dataclass
class EpochTimes:
    """When the current epoch's phases ended. Seconds of a phase = since the one before."""

    started_at: float
    seconds: dict[str, float] = field(default_factory=dict)
    last: float = 0.0


class Engine:
    """One coordinator's term and its successors in the same process. Not re-entrant; guarded by its own lock."""

    def __init__(
        self,
        journal: Journal,
        participants: Participants,
        clock: Clock,
        settings: EngineSettings,
    ) -> None:
        self.journal = journal
        self.participants = participants
        self.clock = clock
        self.settings = settings
        self.claim: dict[str, Any] = {}
        """What the shell adds to every generation record: the sinks' identities, Spark's query id."""
        self.state = State(participants.pipeline)
        self.stopping = threading.Event()
        self.times = EpochTimes(clock.wall())
        self._lock = threading.RLock()
        self._runner: EpochRunner | None = None
        self._swept_at = self._owned_at = self._finishing_since = clock.monotonic()
        self._last_complete: dict[str, Any] | None = None
        """How long the last complete record took; it can only stand in the next one."""
        self._has_led = False
        self._swept_count = 0
        self._may_sweep_later = False
        self._last_unknown: dict[str, Outcome] = {}
        self._performers: Mapping[type[Any], Callable[[Any], Event | None]] = {
            PutRecord: self._put,
            TakeOwnership: self._own,
            Commit: self._commit,
            Sweep: self._sweep,
            WriteEpoch: self._write,
            ReplayEpoch: self._replay,
            Verify: self._verify,
            AbortEpoch: self._abort,
            Release: self._release,
            Warn: self._warn,
            Return: self._return,
            Stop: self._stop,
        }

    # What others ask for ---------------------------------------------------------------------------------------

    def recover(self) -> int:
        """Take over: claim a generation, finish what is decided, sweep what is not. The journal must be open.

        Returns how many branches were aborted.
        """
        with self._lock:
            self.times = EpochTimes(self.clock.wall(), last=self.clock.monotonic())
            self._drive(Opened(self.journal.history))
            return self._swept_count

    def claim_and_sweep(self) -> int:
        """Take over and sweep, leaving the decided epoch as it is; how many branches were aborted."""
        with self._lock:
            self._drive(Opened(self.journal.history, finish=False))
            return self._swept_count

    def begin_again(self) -> bool:
        """Forget a claim that was not stored; False when this coordinator has led already."""
        if self.state.phase is not Phase.STOPPED or self._has_led:
            return False
        self.state = State(self.participants.pipeline)
        return True

    def run_batch(self, epoch: int, runner: EpochRunner) -> None:
        """One call of Spark's batch function. Returns when the epoch is complete; raises what stopped it."""
        with self._lock:
            self._runner = runner
            self.times = EpochTimes(self.clock.wall(), last=self.clock.monotonic())
            try:
                self._drive(BatchStarted(epoch, self.journal.history.manifests.get(epoch)))
                self._upkeep(runner)
            finally:
                self._runner = None

    def upkeep(self) -> None:
        """Sweep if it is time to; for quiet hours, when no batch comes."""
        with self._lock:
            if self.state.phase is Phase.READY:
                self._upkeep(None)

    def stop(self) -> None:
        """Give up waiting for systems that are down, and return when no epoch is being worked on."""
        self.stopping.set()
        with self._lock:
            logger.debug("no epoch is being worked on")

    def _upkeep(self, runner: EpochRunner | None) -> None:
        due = self.clock.monotonic() - self._swept_at >= self.settings.sweep_interval_s
        if due or (runner is not None and runner.repeated_tasks):
            self._may_sweep_later = True
            try:
                self._drive(SweepDue())
            finally:
                self._may_sweep_later = False
        if self._term_is_old():
            self._drive(RenewalDue())

    def _term_is_old(self) -> bool:
        """Whether the generation record holds up pruning, or the sinks have not heard of this term for long."""
        if self.clock.monotonic() - self._owned_at >= self.settings.renew_after_s:
            return True
        history = self.journal.history
        claimed_after = history.generation_slots[-1][1]
        return history.last_complete is not None and (
            history.last_complete - (-1 if claimed_after is None else claimed_after) > self.settings.renew_after_epochs
        )

    # The loop --------------------------------------------------------------------------------------------------

    def _drive(self, event: Event) -> None:
        events: deque[Event] = deque([event])
        while events:
            self.state, effects = step(self.state, events.popleft())
            for effect in effects:
                answer = self._perform(effect)
                if answer is not None:
                    events.append(answer)

    def _perform(self, effect: Effect) -> Event | None:
        return self._performers[type(effect)](effect)

    # Effects ---------------------------------------------------------------------------------------------------

    def _put(self, effect: PutRecord) -> Event:
        body = dict(effect.body)
        if effect.kind is RecordKind.GENERATION:
            body |= self.claim | {"started_at": self.clock.wall()}
            body |= self.journal.history.carried(self.participants.sinks, self.settings.keep_epochs)
            failpoints.hit("recovery.claim", generation=body["generation"])
        elif effect.kind is RecordKind.INTENT:
            self.clock_phase("verify")
            failpoints.hit("epoch.prepared", epoch=body["epoch"])
        elif effect.kind is RecordKind.COMPLETE:
            self.clock_phase("commit")
            failpoints.hit("epoch.committed", epoch=body["epoch"])
            body |= self._complete_body()
        try:
            self._put_until_known(self.journal.next_record(effect.kind, body))
        except FencedError as error:
            return Superseded(error.what)
        except TpcError as error:
            return Failed(self._located(error))
        self._after_put(effect.kind, body)
        return Stored()

    def _put_until_known(self, record: Record) -> None:
        """Put the identical record until the log says what became of it, or for `log_timeout_s`."""
        settings, started = self.settings, self.clock.monotonic()
        delay_s = settings.retry_delay_s
        while True:
            try:
                return self.journal.put(record)
            except PutUnknownError as error:
                if self.clock.monotonic() - started + delay_s > settings.log_timeout_s:
                    raise
                logger.warning("slot %d of the log: %s. Putting the same record again.", record.slot, error.what)
            if self.clock.wait(self.stopping, delay_s):
                raise DecisionUnknownError(f"slot {record.slot} of the log: stopped before its put was answered")
            delay_s = min(settings.retry_delay_max_s, 2 * delay_s)

    def _own(self, effect: TakeOwnership) -> Event:
        history = self.journal.history
        owner = Owner(effect.generation, history.owners[effect.generation], self.clock.wall())
        try:
            self.participants.take_ownership(owner, history, self._still_leading)
        except FencedError as error:
            return Superseded(error.what)
        except TpcError as error:
            return Failed(self._located(error))
        self._owned_at = self.clock.monotonic()
        failpoints.hit("recovery.owned", generation=effect.generation)
        return Owned()

    def _complete_body(self) -> dict[str, Any]:
        return {
            "started_at": self.times.started_at,
            "completed_at": self.clock.wall(),
            "seconds": {name: round(value, 6) for name, value in self.times.seconds.items()},
            "commit_seconds": {n: round(s, 6) for n, s in self.participants.commit_seconds.items()},
            "sink_seconds": {} if self._runner is None else self._runner.sink_seconds,
            "commit_attempts": self.state.attempt,
            "previous_complete": self._last_complete,
            "floor": self.journal.history.floor,
        }

    def _after_put(self, kind: RecordKind, body: Mapping[str, Any]) -> None:
        if kind is RecordKind.GENERATION:
            self._has_led = True
            self.journal.prune()
            failpoints.hit("recovery.claimed", generation=body["generation"])
        elif kind is RecordKind.INTENT:
            self.clock_phase("intent")
            failpoints.hit("epoch.decided", epoch=body["epoch"])
        elif kind is RecordKind.COMPLETE:
            self.clock_phase("complete")
            self._last_complete = {"epoch": body["epoch"], "seconds": round(self.times.seconds["complete"], 6)}
            failpoints.hit("epoch.completed", epoch=body["epoch"])

    def clock_phase(self, name: str) -> None:
        """The current epoch's phase `name` ends now."""
        now = self.clock.monotonic()
        self.times.seconds[name] = self.times.seconds.get(name, 0.0) + now - self.times.last
        self.times.last = now

    def _commit(self, effect: Commit) -> Event:
        settings = self.settings
        if effect.attempt:
            delay_s = min(settings.retry_delay_max_s, settings.retry_delay_s * 2 ** (effect.attempt - 1))
            if self.clock.wait(self.stopping, delay_s) or self._gave_up():
                return Failed(self._unfinished(effect))
            if (fenced := self._superseded(effect)) is not None:
                return fenced
        else:
            self._finishing_since = self.clock.monotonic()
            self.participants.commit_seconds.clear()
        try:
            outcomes = self.participants.commit(effect.manifest, effect.handles, effect.abandoned)
        except TpcError as error:
            return Failed(error)
        if (
            not all(outcome.settled for outcome in outcomes.values())
            and (fenced := self._superseded(effect)) is not None
        ):
            return fenced
        unknown = {h: o for h, o in outcomes.items() if o.verdict is Verdict.UNKNOWN}
        self._last_unknown = unknown
        if unknown:
            handle, outcome = next(iter(unknown.items()))
            logger.warning(
                "epoch %d is decided; %d branches are not committed yet (attempt %d), first %s: %s. Trying again.",
                effect.manifest.epoch,
                len(unknown),
                effect.attempt + 1,
                handle,
                outcome.evidence,
            )
        return Answered(outcomes)

    def _superseded(self, effect: Commit) -> Superseded | None:
        """Whether another coordinator leads, who may have repaired the epoch, or finished it and pruned its markers."""
        try:
            self._still_leading()
        except FencedError as error:
            return Superseded(error.what)
        except TransientError as error:
            logger.warning("epoch %d is decided; the log cannot be read: %s", effect.manifest.epoch, error.what)
        return None

    def _gave_up(self) -> bool:
        limit_s = self.settings.finish_timeout_s
        return limit_s is not None and self.clock.monotonic() - self._finishing_since > limit_s

    def _unfinished(self, effect: Commit) -> UnknownOutcomeError:
        evidence = next((o.evidence for o in self._last_unknown.values()), "")
        return UnknownOutcomeError(
            f"{len(effect.handles)} branches of a decided epoch are not committed: {evidence}",
            pipeline=str(self.state.pipeline),
            epoch=effect.manifest.epoch,
        )

    def _sweep(self, effect: Sweep) -> Event:
        self._swept_at = self.clock.monotonic()
        try:
            failpoints.hit("recovery.sweep", generation=effect.generation)
            count = self.participants.sweep(self._sweeper(effect.manifest), self._still_leading)
        except TransientError as error:
            if not self._may_sweep_later:
                return Failed(error.located(pipeline=str(self.state.pipeline)))
            logger.warning("leftovers of dead tasks cannot be swept now, again in a while: %s", error.what)
            return Swept(0)
        except TpcError as error:
            return Failed(error.located(pipeline=str(self.state.pipeline)))
        self._swept_count = count
        failpoints.hit("recovery.swept", generation=effect.generation, count=count)
        return Swept(count)

    def _sweeper(self, named: Manifest | None, *, failed_epoch: int | None = None) -> Sweeper:
        state = self.state
        return Sweeper(state.pipeline, state.generation, state.last_complete, named, failed_epoch)

    def _still_leading(self) -> None:
        self.journal.require_highest(self.journal.history.last_slot)

    def _write(self, effect: WriteEpoch) -> Event:
        try:
            return Prepared(self._running().write(effect.epoch, effect.generation))
        except Exception as error:  # noqa: BLE001  whatever ends a pass (user code included) aborts the epoch
            return Failed(self._located(error))

    def _replay(self, effect: ReplayEpoch) -> Event:
        try:
            return self._running().replay(effect)
        except Exception as error:  # noqa: BLE001  the replay failed; the epoch stays decided
            return Failed(_in_replay(self._located(error)))

    def _located(self, error: Exception) -> Exception:
        if isinstance(error, TpcError):
            return error.located(pipeline=str(self.state.pipeline), epoch=self.state.epoch)
        return error

    def _running(self) -> EpochRunner:
        if self._runner is None:
            raise StateMachineError("a pass was asked for outside of a batch")
        return self._runner

    def _verify(self, effect: Verify) -> Event:
        try:
            self.participants.verify(effect.manifest)
        except TpcError as error:
            return Failed(self._located(error))
        return Verified()

    def _abort(self, effect: AbortEpoch) -> Event:
        try:
            self.participants.sweep(self._sweeper(effect.spare, failed_epoch=effect.epoch), self._still_leading)
        except FencedError as error:
            return Failed(self._located(error))
        except TpcError:
            logger.exception("epoch %d could not be undone everywhere; the next start does it", effect.epoch)
        return Aborted()

    def _release(self, effect: Release) -> None:
        try:
            self.participants.release(effect.manifest)
        except TpcError:
            logger.exception("epoch %d is complete; a sink could not tidy up after it", effect.manifest.epoch)

    def _warn(self, effect: Warn) -> None:
        logger.warning("%s", effect.message)

    def _return(self, effect: Return) -> None:
        logger.debug("epoch %d returns to Spark", effect.epoch)

    def _stop(self, effect: Stop) -> None:
        raise effect.error


def _in_replay(error: Exception) -> Exception:
    """What an error of the pass says of an undecided epoch is not true of a decided one that is run again."""
    if isinstance(error, (ConfigurationError, DataError, TransientError)):
        error.safe = "the epoch is decided and stays so: what is committed of it stands, nothing of this replay shows."
        error.remedy = "remove the cause and restart: the replay is repeated and writes what is lost of the epoch."
    return error
