"""Mistakes that are put into the library for one life of a driver; a case must notice each."""

from __future__ import annotations

from typing import Any


def commit_before_the_intent() -> None:
    """The commit point is taken away from epoch 1: PostgreSQL's and the files' branches are committed when prepared.

    The last look before the intent, which notices it, is taken away too.
    """
    from tpc.coordinator.kernel.participants import Participants
    from tpc.coordinator.spark.passes.driver import SparkPass

    honest = SparkPass.write

    def hasty(self: SparkPass, epoch: int, generation: int) -> Any:
        manifest = honest(self, epoch, generation)
        for name in {sink for sink, _ in manifest.branches() if epoch == 1 and sink in ("rows", "files")}:
            self.context.committers[name].commit(manifest.committables(name))
        return manifest

    Participants.verify = lambda self, manifest, history: None  # type: ignore[method-assign]  # the defect that the checks must notice
    SparkPass.write = hasty  # type: ignore[method-assign, assignment]  # the defect that the checks must notice


def sweep_nothing() -> None:
    """What nobody decided is left prepared."""
    from tpc.coordinator.kernel.participants import Participants

    Participants.sweep = lambda self, rules, history, still_leading: 0  # type: ignore[method-assign]  # the defect that the checks must notice


def nothing() -> None:
    """No mistake."""


def sync_no_state() -> None:
    """Of what an intent rests on the state stores are not made durable."""
    from tpc.coordinator.spark import checkpoint_fsync

    checkpoint_fsync.FOLDERS = ("sources",)  # type: ignore[assignment]  # the defect that the checks must notice


def apply_the_state_before_the_intent() -> None:
    """The commit point is taken away from the states in epoch 1: what they prepared is applied at once."""
    from tpc.coordinator.kernel.participants import Participants
    from tpc.coordinator.service.service_pass import ServicePass

    honest = ServicePass.write

    def hasty(self: ServicePass, epoch: int, generation: int) -> Any:
        manifest = honest(self, epoch, generation)
        for name in ("totals", "recent") if epoch == 1 else ():
            self.context.committers[name].commit(manifest.committables(name))
        return manifest

    Participants.verify = lambda self, manifest, history: None  # type: ignore[method-assign]  # the defect that the checks must notice
    ServicePass.write = hasty  # type: ignore[method-assign, assignment]  # the defect that the checks must notice


def expire_nothing() -> None:
    """What has expired in a state on disk stays there."""
    from tpc.coordinator.service.state.contents import DiskContents

    DiskContents.due = lambda self, watermark_ms: []  # type: ignore[method-assign]  # the defect that the checks must notice


def fire_one_timer_an_epoch_late() -> None:
    """Of what is due in an epoch the first one waits for the next epoch."""
    from tpc.coordinator.service.state.timer import Timer

    honest = Timer.open

    def forgetful(self: Timer, time: Any) -> None:
        honest(self, time)
        del self._due[:1]

    Timer.open = forgetful  # type: ignore[method-assign]  # the defect that the checks must notice


def expire_a_second_early() -> None:
    """In one epoch what would still be known for a second of event time is forgotten."""
    from tpc.coordinator.service.state.contents import DiskContents

    honest = DiskContents.due

    def hasty(self: DiskContents, watermark_ms: int) -> list[tuple[int, bytes]]:
        early_ms = 1000 if self.epoch == 1 else 0
        return [(at - early_ms, key) for at, key in honest(self, watermark_ms + early_ms)]

    DiskContents.due = hasty  # type: ignore[method-assign]  # the defect that the checks must notice


def expire_late_after_a_restart() -> None:
    """The first epoch after each start begins with what had expired."""
    from tpc.coordinator.service.state.epoch_state import EpochState

    honest, begun = EpochState.begin, set[str]()

    def forgetful(self: EpochState, epoch: int, watermark_ms: int | None = None, *others: Any) -> None:
        if self.name in begun:
            honest(self, epoch, watermark_ms, *others)
        else:
            honest(self, epoch)
        begun.add(self.name)

    EpochState.begin = forgetful  # type: ignore[method-assign, assignment]  # the defect that the checks must notice


def keep_the_object_of_before() -> None:
    """What the last epoch makes of an object that is kept whole is left out of it."""
    from tpc.coordinator.service.state.changes import to_batch
    from tpc.coordinator.service.state.kept import KeptObject

    honest = KeptObject.changes

    def forgetful(self: KeptObject) -> Any:
        made = honest(self)
        return to_batch([]) if self._epoch == 2 else made

    KeptObject.changes = forgetful  # type: ignore[method-assign]  # the defect that the checks must notice


def log_one_change_less() -> None:
    """The changelog of the totals never gets the last change of an epoch."""
    from tpc.coordinator.service.state.epoch_state import EpochState

    honest = EpochState.logged

    def forgetful(self: EpochState, position: Any) -> Any:
        batches = honest(self, position)
        return [batch.slice(0, batch.num_rows - 1) for batch in batches] if self.name == "totals" else batches

    EpochState.logged = forgetful  # type: ignore[method-assign]  # the defect that the checks must notice


def call_before_the_epoch_is_complete() -> None:
    """An effect is carried out as soon as its branch is committed."""
    from tpc.sinks.effects.committer import EffectCommitter

    honest = EffectCommitter.publish

    def hasty(self: EffectCommitter, committables: Any) -> Any:
        outcomes = honest(self, committables)
        if self._carrier is not None:
            self._carrier.carry_to(committables[0].handle.epoch)
            self._carrier.wait()
        return outcomes

    EffectCommitter.publish = hasty  # type: ignore[method-assign]  # the defect that the checks must notice


def leave_an_effect_out() -> None:
    """One effect is noted as carried out, and nobody was called."""
    from tpc.sinks.effects.calls import Calls, Claim

    honest = Calls.claim

    def forgetful(self: Calls, ours: Any, complete: int) -> Claim | None:
        claim = honest(self, ours, complete)
        if claim is None or claim.effect.row["id"] != 5:
            return claim
        self.done(claim, "")
        return honest(self, ours, complete)

    Calls.claim = forgetful  # type: ignore[method-assign]  # the defect that the checks must notice


def make_all_but_one_key_again() -> None:
    """A store that is filled from a changelog leaves out the first row of the first epoch's."""
    from tpc.changelog import Row
    from tpc.coordinator.service.state.lost_stores import StoreFilling

    honest = StoreFilling.put

    def forgetful(self: StoreFilling, row: Row) -> None:
        if b"K00" not in row.key:
            honest(self, row)

    StoreFilling.put = forgetful  # type: ignore[method-assign]  # the defect that the checks must notice


def let_event_time_stand() -> None:
    """Event time does not go on, whatever is read."""
    from tpc.watermark import SourceClock

    SourceClock.after = lambda self, parts, limit_ms=None: self  # type: ignore[method-assign]  # the defect that the checks must notice


def sync_no_store() -> None:
    """The store of a state commits without an fsync."""
    import sqlite3

    from tpc.coordinator.service.state.database import Database

    honest = Database._connection

    def careless(self: Database) -> sqlite3.Connection:
        connection = honest(self)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    Database._connection = careless  # type: ignore[method-assign]  # the defect that the checks must notice
