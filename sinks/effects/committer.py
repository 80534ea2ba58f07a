"""The committer of an effects sink: decides staged effects, and has a carrier carry out those of complete epochs.

A carrier begins only in a coordinator that writes epochs, after `check` and `take_ownership`. Commands that only finish
or sweep make no calls.
"""

from __future__ import annotations

import logging
import sqlite3
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tpc.errors import FencedError, TpcError
from tpc.handles import DELIMITER, Handle, PipelineId
from tpc.json import JSONObject
from tpc.sink import CheckContext, Committable, GivenUp, Marker, Outcome, Owner, Verdict
from tpc.sinks.authoring.staged import StagedCommitter
from tpc.sinks.effects.calls import Calls
from tpc.sinks.effects.carrier import Carrier
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import Fate
from tpc.sinks.effects.writer import check_columns, read_staged
from tpc.support.file_systems import REMOTE, file_system

if TYPE_CHECKING:
    from tpc.sinks.effects.sink import EffectSink

logger = logging.getLogger(__name__)


class EffectCommitter(StagedCommitter):
    """Decides, aborts and lists branches, and tells the carrier which epochs are complete."""

    sink: EffectSink

    def __init__(self, sink: EffectSink, pipeline: PipelineId) -> None:
        super().__init__(sink, pipeline)
        self._database = Database(sink.path, sink.timeout_s)
        self._branches = Branches(self._database, self.key, f"{pipeline}/{sink.name}")
        self._calls = Calls(self._database, self.key)
        self._writes_epochs = False
        self._owner: Owner | None = None
        self._carrier: Carrier | None = None

    def check(self, context: CheckContext) -> None:
        """Create the outbox, and check that every row can be an effect. Warns of an outbox on a remote file system."""
        check_columns(self.sink, context.schema)
        self._database.identity()
        kind = file_system(self.sink.path.absolute())
        if kind in REMOTE:
            logger.warning(
                "sink %s: the outbox %s is on a remote file system (%s): its locks and fsync must work between all "
                "machines that may be driver, or an effect may be carried out twice or be lost",
                *(self.sink.name, self.sink.path, kind),
            )
        self._writes_epochs = True

    def missing(self) -> str | None:
        """The outbox, or the directory for it."""
        return self._database.missing()

    def identity(self) -> str:
        """The id of this outbox."""
        return f"effects:{self._database.identity()}"

    # Branches --------------------------------------------------------------------------------------------------

    def newest_marker(self, since_generation: int = 0) -> Marker | None:
        """The newest epoch whose effects are decided here."""
        return self._branches.newest_marker()

    def publish(self, committables: Sequence[Committable]) -> list[Outcome]:
        """Each branch in a transaction; after it its staged file is no longer needed."""
        outcomes = []
        for branch in committables:
            outcomes.append(self._branches.publish(branch, self.sink.staging.path(branch.handle)))
            if outcomes[-1].settled:
                self.sink.staging.remove(branch.handle)
        return outcomes

    def withdraw(self, committables: Sequence[Committable]) -> list[GivenUp]:
        """Note that they are given up, unless they are decided."""
        return [self._branches.withdraw(branch) for branch in committables]

    def released(self, committables: Sequence[Committable], epoch: int) -> None:
        """Remove older markers, and effects that were done long ago."""
        if committables:
            self._branches.prune(epoch, self.sink.keep_s)

    # Effects ---------------------------------------------------------------------------------------------------

    def hint(self) -> JSONObject:
        """The newest epoch, as evidence. It is called before each epoch, so with `wait` it waits for the effects."""
        if self.sink.wait and self._carrier is not None:
            self._carrier.wait()
        return self._branches.evidence()

    def take_ownership(self, owner: Owner, before: Owner | None) -> bool:
        """As every sink; its effects are carried out under this generation."""
        taken = super().take_ownership(owner, before)
        if taken:
            self._owner = owner
        return taken

    def completed(self, epoch: int) -> None:
        """Every epoch up to this one is complete: carry out its effects from now on."""
        if self._owner is None or self.sink.call is None or not self._writes_epochs:
            return
        if self._carrier is None:
            self._carrier = Carrier(self.sink, self.sink.call, self._calls, self._owner)
            self._carrier.start()
        elif self._carrier.owner != self._owner:
            self._carrier.renew(self._owner)
        self._carrier.carry_to(epoch)

    def close(self) -> None:
        """Wait for the effects, if the pipeline waits for them; begin no further call."""
        if self._carrier is None:
            return
        try:
            if self.sink.wait:
                self._carrier.wait()
        except FencedError:
            pass
        except TpcError as error:
            logger.warning("%s; the next start goes on with them", error.what)
        finally:
            self._carrier.stop()
            self._carrier = None


# Branches in an outbox: one transaction turns staged effects into decided ones, with a marker, or notes that they are
# given up. A decided effect is not carried out here, since it is not known here whether its epoch is complete.

BASE_EPOCH = -1


class Branches:
    """The branches of one sink of one pipeline; `sink` names both in the database, every key begins with `keys`."""

    def __init__(self, database: Database, sink: str, keys: str) -> None:
        self.database, self.sink, self.keys = database, sink, keys

    def newest_marker(self) -> Marker | None:
        """The marker of the newest epoch with effects here; of its branches one of the highest generation."""
        with self.database.transaction() as db:
            return self._newest(db)

    def evidence(self) -> JSONObject:
        """The newest epoch; before the first a base, a random id that shows whether markers were removed since."""
        with self.database.transaction() as db:
            if (newest := self._newest(db)) is not None:
                return {"before": newest.epoch}
            found = db.execute("SELECT handle FROM markers WHERE sink = ? AND epoch < 0", (self.sink,)).fetchone()
            base = found["handle"] if found else f"base{DELIMITER}{uuid.uuid4()}"
            db.execute("INSERT OR IGNORE INTO markers VALUES (?, ?, ?, 0)", (base, self.sink, BASE_EPOCH))
            return {"before": None, "base": base}

    def publish(self, branch: Committable, staged: Path) -> Outcome:
        """Turn a branch's staged effects into decided ones, unless its marker says that they are."""
        with self.database.transaction() as db:
            if self._has(db, "markers", branch.handle):
                return Outcome(Verdict.ALREADY, "its marker is there")
            if self._has(db, "given_up", branch.handle):
                return Outcome(Verdict.UNKNOWN, "it was given up", contradiction=True)
            try:
                effects = list(read_staged(staged))
            except FileNotFoundError:
                return self._gone(db, branch)
            if len(effects) != branch.rows:
                return Outcome(Verdict.REFUSED, "its staged file has been changed")
            for ordinal, (values, row, types) in enumerate(effects):
                self._insert(db, branch.handle, ordinal, self.key(values), row, types)
            handle = branch.handle
            marker = (str(handle), self.sink, handle.epoch, handle.generation)
            db.execute("INSERT INTO markers VALUES (?, ?, ?, ?)", marker)
        return Outcome(Verdict.COMMITTED, "decided")

    def key(self, values: Sequence[str]) -> str:
        """The key of a call. It depends on the row's values only, so that a repeated epoch gives the same key."""
        return "/".join([self.keys, *(quote(value, "") for value in values)])

    def withdraw(self, branch: Committable) -> GivenUp:
        """Make sure that a delayed commit changes nothing; the outcome of the branch."""
        with self.database.transaction() as db:
            if self._has(db, "markers", branch.handle):
                return GivenUp.COMMITTED
            told = self._has(db, "given_up", branch.handle)
            if not told and self._is_past(db, branch):
                return GivenUp.NOT_KNOWN
            entry = (str(branch.handle), self.sink, branch.handle.epoch)
            db.execute("INSERT OR IGNORE INTO given_up VALUES (?, ?, ?)", entry)
            return GivenUp.UNDONE

    def prune(self, epoch: int, keep_s: float) -> None:
        """Remove the markers of epochs before this complete one, and effects done longer ago than `keep_s`."""
        with self.database.transaction() as db:
            newest = self._newest(db)
            before = min(epoch, newest.epoch) if newest else 0
            db.execute("DELETE FROM markers WHERE sink = ? AND epoch < ?", (self.sink, before))
            db.execute("DELETE FROM given_up WHERE sink = ? AND epoch < ?", (self.sink, before))
            done = (self.sink, Fate.DONE.value, Fate.REPEATED.value, time.time() - keep_s)
            db.execute("DELETE FROM effects WHERE sink = ? AND state IN (?, ?) AND changed_at < ?", done)

    def _insert(
        self, db: sqlite3.Connection, handle: Handle, ordinal: int, key: str, row: str, types: str | None
    ) -> None:
        owner = db.execute(
            "SELECT row FROM effects WHERE sink = ? AND key = ? AND state NOT IN (?, ?) LIMIT 1",
            (self.sink, key, Fate.REPEATED.value, Fate.CONTRADICTORY.value),
        ).fetchone()
        state = Fate.WAITING if owner is None else Fate.REPEATED if owner["row"] == row else Fate.CONTRADICTORY
        db.execute(
            "INSERT INTO effects (sink, handle, ordinal, epoch, key, row, types, state, changed_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self.sink, str(handle), ordinal, handle.epoch, key, row, types, state.value, time.time()),
        )

    def _gone(self, db: sqlite3.Connection, branch: Committable) -> Outcome:
        newest = self._newest(db)
        shown, before = None if newest is None else newest.epoch, branch.data["before"]
        lost = shown in (before, branch.handle.epoch) and self._shows_what_was(db, branch)
        said = f"no staged file, no marker; the newest epoch is {shown}, and was {before}"
        return Outcome(Verdict.LOST if lost else Verdict.UNKNOWN, said, contradiction=not lost)

    def _shows_what_was(self, db: sqlite3.Connection, branch: Committable) -> bool:
        """Whether the marker from the begin of the epoch is still there; branches of older versions have no base."""
        if branch.data["before"] is not None:
            found = "SELECT 1 FROM markers WHERE sink = ? AND epoch = ?"
            return db.execute(found, (self.sink, branch.data["before"])).fetchone() is not None
        base = branch.data.get("base")
        return base is None or db.execute("SELECT 1 FROM markers WHERE handle = ?", (base,)).fetchone() is not None

    def _is_past(self, db: sqlite3.Connection, branch: Committable) -> bool:
        """Whether its marker may have existed and been pruned since."""
        newest = self._newest(db)
        return newest is not None and newest.epoch > branch.handle.epoch

    def _newest(self, db: sqlite3.Connection) -> Marker | None:
        newest = "SELECT handle, epoch FROM markers WHERE sink = ? AND epoch >= 0"
        found = db.execute(f"{newest} ORDER BY epoch DESC, generation DESC LIMIT 1", (self.sink,)).fetchone()
        return Marker(found["epoch"], Handle.parse(found["handle"])) if found else None

    def _has(self, db: sqlite3.Connection, table: str, handle: Handle) -> bool:
        return db.execute(f"SELECT 1 FROM {table} WHERE handle = ?", (str(handle),)).fetchone() is not None
