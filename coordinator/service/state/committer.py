"""Applies decided deltas, once and in order, and tells what the store holds. What it may do is in `rules.py`."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from tpc import failpoints
from tpc.coordinator.service.state import changes, rules
from tpc.coordinator.service.state.database import Database
from tpc.coordinator.service.state.store import applied, owner_of
from tpc.coordinator.service.state.upkeep import Upkeep
from tpc.coordinator.service.state.writer import forget
from tpc.errors import ConfigurationError, CorruptionError, TpcError
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, Committer, GivenUp, InDoubt, Marker, Outcome, Owner, Verdict

if TYPE_CHECKING:
    from tpc.coordinator.service.state.sink import StateSink

logger = logging.getLogger(__name__)

_IN_DOUBT = "SELECT handle FROM deltas WHERE applied = 0 ORDER BY handle"


class StateCommitter(Committer):
    """The driver's half for the state of one pipeline and incarnation."""

    def __init__(self, sink: StateSink, pipeline: PipelineId) -> None:
        self.sink = sink
        self.pipeline = pipeline
        self.owned = f"{pipeline.prefix}{sink.name}"
        self.database = Database(sink.path, sink.timeout_s, sink.name)
        self._upkeep = Upkeep(sink.path, sink.timeout_s, sink.name, self.owned)
        self._complete = rules.NO_EPOCH
        """The newest epoch that is known to be complete."""
        self._is_kept = False
        """Whether anything is known to be applied, and so may be kept apart."""

    def check(self, context: CheckContext) -> None:
        """Make the store. Raises `ConfigurationError` when the directory above it is not there, or for other rows."""
        if not self.sink.directory.parent.is_dir():
            raise ConfigurationError(
                f"{self.sink.directory.parent} is not there",
                sink=self.sink.name,
                remedy="make the directory, or mount what belongs there.",
            )
        if sorted(context.schema.names) != sorted(changes.SCHEMA.names):
            raise ConfigurationError(
                f"a state has the columns key, value and expires_ms, not {', '.join(context.schema.names)}",
                sink=self.sink.name,
                remedy="write what `State.changes` returns.",
            )
        self.database.make()

    def identity(self) -> str:
        """The file's own number, which goes with it."""
        self.database.make()
        with self.database.reading("asking") as reading:
            return f"state:{reading.execute('SELECT uuid FROM identity').fetchone()[0]}"

    def hint(self) -> JSONObject:
        """The newest epoch that the store has applied: what a delta of the next one comes after."""
        with self.database.reading("asking") as reading:
            return {"after": applied(reading, self.owned)}

    def commit(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Each epoch in one transaction, the older ones first; what the store does not answer is UNKNOWN."""
        outcomes: dict[Handle, Outcome] = {}
        in_order = sorted((branch for branch in committables), key=lambda branch: branch.handle.epoch)
        for _, of_epoch in groupby(in_order, key=lambda branch: branch.handle.epoch):
            branches = list(of_epoch)
            outcome = self._outcome(branches)
            outcomes.update((branch.handle, outcome) for branch in branches)
        return [outcomes[branch.handle] for branch in committables]

    def _outcome(self, branches: Sequence[Committable]) -> Outcome:
        try:
            with self.database.transaction("committing to") as transaction:
                shown = self._shown(transaction, branches)
                refused = rules.outcome([_delta(branch) for branch in branches], shown)
                if refused is None:
                    self._apply(transaction, branches)
        except TpcError as error:
            return Outcome(Verdict.UNKNOWN, error.what, contradiction=isinstance(error, CorruptionError))
        if refused is None or refused.verdict is Verdict.ALREADY:
            self._is_kept = True
            self._catch_up()
        return refused or Outcome(Verdict.COMMITTED, "applied")

    def _catch_up(self) -> None:
        """What is applied is applied, whatever happens to this."""
        try:
            self._upkeep.catch_up()
        except TpcError as error:
            logger.warning(
                "%s is committed, and too much of it waits to be brought in order, which fails: %s. Nothing is lost; "
                "starts take longer the more there is. The next epoch tries it again.",
                self.database.path,
                error.what,
            )

    def _shown(self, transaction: sqlite3.Connection, branches: Sequence[Committable]) -> rules.Shown:
        def which(found: str) -> frozenset[str]:
            question = f"SELECT 1 FROM {found} AND handle = ?"
            return frozenset(b.resource for b in branches if transaction.execute(question, [b.resource]).fetchone())

        marked, prepared = which("markers WHERE true"), which("deltas WHERE applied = 0")
        return rules.Shown(applied(transaction, self.owned), marked, prepared)

    def _apply(self, transaction: sqlite3.Connection, branches: Sequence[Committable]) -> None:
        """From now on the changes of these branches, which lie in the store already, are what it holds."""
        epoch = branches[0].handle.epoch
        for branch in branches:
            transaction.execute("UPDATE deltas SET applied = 1 WHERE handle = ?", [branch.resource])
            marker = (branch.resource, self.owned, epoch, branch.handle.generation)
            transaction.execute("INSERT INTO markers VALUES (?, ?, ?, ?)", marker)
        failpoints.hit("state.applied", sink=self.sink.name, epoch=epoch)
        self._prune(transaction)
        failpoints.hit("state.pruned", sink=self.sink.name, epoch=epoch)

    def _prune(self, transaction: sqlite3.Connection) -> None:
        rows = transaction.execute("SELECT DISTINCT epoch FROM markers WHERE owned = ?", [self.owned]).fetchall()
        for epoch in rules.markers_to_drop([row[0] for row in rows], self._complete):
            transaction.execute("DELETE FROM markers WHERE owned = ? AND epoch = ?", (self.owned, epoch))

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """The epoch need not be undone any more, nor older ones: what they changed goes into the entries."""
        self.completed(epoch)

    def completed(self, epoch: int) -> None:
        """As `released`: a process that runs for one epoch only learns of no epoch of its own that is complete."""
        self._complete = max(self._complete, epoch)
        if self._is_kept:
            self._upkeep.completed(self._complete)

    def abort(self, branches: Sequence[InDoubt | Committable]) -> None:
        """Remove what is prepared."""
        with self.database.transaction("aborting in") as transaction:
            forget(transaction, [branch.resource for branch in branches])

    def give_up(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Remove what is prepared; what is applied stays."""
        ends = []
        with self.database.transaction("giving up in") as transaction:
            for branch in committables:
                found = transaction.execute("SELECT 1 FROM markers WHERE handle = ?", [branch.resource]).fetchone()
                forget(transaction, [branch.resource])
                ends.append(GivenUp.COMMITTED if found else GivenUp.UNDONE)
        return ends

    def in_doubt(self) -> list[InDoubt]:
        """The deltas of any incarnation of this pipeline's name."""
        return [doubt for doubt, _ in self.all_in_doubt() if doubt.pipeline.name == self.pipeline.name]

    def all_in_doubt(self) -> list[tuple[InDoubt, Owner | None]]:
        """Every delta that is not applied, with the owner entry of its pipeline."""
        if not self.database.is_there():
            return []
        with self.database.reading("listing what is prepared in") as reading:
            handles = [Handle.parse(row[0]) for row in reading.execute(_IN_DOUBT)]
            doubts = [InDoubt(str(h), h.pipeline, h.generation, h.sink, h.epoch) for h in handles]
            return [(doubt, owner_of(reading, f"{doubt.pipeline.prefix}{doubt.sink}")) for doubt in doubts]

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The last epoch applied."""
        newest = "SELECT epoch, handle FROM markers WHERE owned = ? ORDER BY epoch DESC, generation DESC LIMIT 1"
        with self.database.reading("reading markers of") as reading:
            found = reading.execute(newest, [self.owned]).fetchone()
        return Marker(found[0], Handle.parse(found[1])) if found else None

    def owner(self) -> Owner | None:
        """The entry of this pipeline and incarnation."""
        if not self.database.is_there():
            return None
        with self.database.reading("reading the owner entry of") as reading:
            return owner_of(reading, self.owned)

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """Compare and set in one transaction."""
        if before is None:
            self.database.make()
        with self.database.transaction("taking ownership of") as transaction:
            if _term(owner_of(transaction, self.owned)) not in (_term(before), _term(owner)):
                return False
            entry = (self.owned, owner.generation, owner.nonce, owner.since)
            transaction.execute("INSERT OR REPLACE INTO owners VALUES (?, ?, ?, ?)", entry)
        return True

    def close(self) -> None:
        """Let go of the file."""
        self._upkeep.close()
        self.database.close()


def _delta(branch: Committable) -> rules.Delta:
    return rules.Delta(branch.resource, branch.handle.epoch, branch.data["after"], branch.data.get("rests_on"))


def _term(owner: Owner | None) -> tuple[int, str] | None:
    return None if owner is None else (owner.generation, owner.nonce)
