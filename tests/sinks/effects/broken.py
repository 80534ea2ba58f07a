"""Effects sinks that each break one promise, for the tests of the promises."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from tpc.handles import Handle, PipelineId
from tpc.sink import Committable, Committer, Outcome, Owner
from tpc.sinks.effects.calls import Calls
from tpc.sinks.effects.committer import Branches, EffectCommitter
from tpc.sinks.effects.effect import Guarantee
from tpc.sinks.effects.sink import EffectSink


class CallsWhenCommitted(EffectSink):
    """A row that is there is called: other sinks of the epoch may still be written again."""

    class Made(EffectCommitter):
        def publish(self, committables: Sequence[Committable]) -> list[Outcome]:
            outcomes = super().publish(committables)
            self.completed(max(branch.handle.epoch for branch in committables))
            return outcomes

    def committer(self, pipeline: PipelineId) -> Committer:
        return self.Made(self, pipeline)


class ForgetsAtRestart(EffectSink):
    """Calls what becomes complete while it lives, and nothing of before."""

    class Made(EffectCommitter):
        def completed(self, epoch: int) -> None:
            if self._carrier is not None or self._branches.newest_marker() is None:
                super().completed(epoch)

    def committer(self, pipeline: PipelineId) -> Committer:
        return self.Made(self, pipeline)


class KeysByHandle(EffectSink):
    """The key names the branch: another one after a repair."""

    class Kept(Branches):
        def _insert(
            self, db: sqlite3.Connection, handle: Handle, ordinal: int, key: str, row: str, types: str | None
        ) -> None:
            super()._insert(db, handle, ordinal, f"{self.keys}/{handle}/{ordinal}", row, types)

    def committer(self, pipeline: PipelineId) -> Committer:
        made = EffectCommitter(self, pipeline)
        made._branches = self.Kept(made._database, made.key, f"{pipeline}/{self.name}")
        return made


class KeysByEpoch(EffectSink):
    """The key names a place in the epoch: another row's, when outbox and log are put back to an earlier moment."""

    class Kept(Branches):
        def _insert(
            self, db: sqlite3.Connection, handle: Handle, ordinal: int, key: str, row: str, types: str | None
        ) -> None:
            super()._insert(db, handle, ordinal, f"{self.keys}/{handle.epoch}-{ordinal}", row, types)

    def committer(self, pipeline: PipelineId) -> Committer:
        made = EffectCommitter(self, pipeline)
        made._branches = self.Kept(made._database, made.key, f"{pipeline}/{self.name}")
        return made


class CallsTwice(EffectSink):
    """A call in which the process died is made again, whatever the guarantee."""

    class Kept(Calls):
        def begin_term(self, owner: Owner, guarantee: Guarantee) -> None:
            super().begin_term(owner, Guarantee.AT_LEAST_ONCE)

    def committer(self, pipeline: PipelineId) -> Committer:
        made = EffectCommitter(self, pipeline)
        made._calls = self.Kept(made._database, made.key)
        return made


class NotesBeforeTheCall(EffectSink):
    """A call that was begun counts as made, whatever the guarantee."""

    class Kept(Calls):
        def begin_term(self, owner: Owner, guarantee: Guarantee) -> None:
            super().begin_term(owner, Guarantee.AT_MOST_ONCE)

    def committer(self, pipeline: PipelineId) -> Committer:
        made = EffectCommitter(self, pipeline)
        made._calls = self.Kept(made._database, made.key)
        return made
