"""Branches in an outbox: staged effects become decided ones, with a marker, in one transaction, or are given up.

A decided effect is not carried out yet: whether its epoch is complete is not known here.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tpc.handles import DELIMITER, Handle
from tpc.json import JSONObject
from tpc.sink import Committable, GivenUp, Marker, Outcome, Verdict
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import Fate
from tpc.sinks.effects.writer import read_staged

BASE_EPOCH = -1


class Branches:
    """The branches of one sink of one pipeline; `sink` names both in the database, `keys` begins every key."""

    def __init__(self, database: Database, sink: str, keys: str) -> None:
        self.database, self.sink, self.keys = database, sink, keys

    def newest_marker(self) -> Marker | None:
        """Of the newest epoch that has effects here, and of its branches one of the highest generation."""
        with self.database.transaction() as db:
            return self._newest(db)

    def evidence(self) -> JSONObject:
        """The newest epoch; before the first a base, drawn once, which tells whether markers were removed since."""
        with self.database.transaction() as db:
            if (newest := self._newest(db)) is not None:
                return {"before": newest.epoch}
            found = db.execute("SELECT handle FROM markers WHERE sink = ? AND epoch < 0", (self.sink,)).fetchone()
            base = found["handle"] if found else f"base{DELIMITER}{uuid.uuid4()}"
            db.execute("INSERT OR IGNORE INTO markers VALUES (?, ?, ?, 0)", (base, self.sink, BASE_EPOCH))
            return {"before": None, "base": base}

    def publish(self, branch: Committable, staged: Path) -> Outcome:
        """Make a branch's effects decided ones, unless its marker says that they are."""
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
        """The key of a call: of what the row is, never of how it came here."""
        return "/".join([self.keys, *(quote(value, "") for value in values)])

    def withdraw(self, branch: Committable) -> GivenUp:
        """See to it that a commit on its way changes nothing; what became of the branch."""
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
        """Forget the markers of epochs before this one, which is complete, and effects done so long ago."""
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
        """Whether what stood there when the epoch began is there; branches of older versions have recorded no base."""
        if branch.data["before"] is not None:
            found = "SELECT 1 FROM markers WHERE sink = ? AND epoch = ?"
            return db.execute(found, (self.sink, branch.data["before"])).fetchone() is not None
        base = branch.data.get("base")
        return base is None or db.execute("SELECT 1 FROM markers WHERE handle = ?", (base,)).fetchone() is not None

    def _is_past(self, db: sqlite3.Connection, branch: Committable) -> bool:
        """Whether its marker may have been there, and pruned since."""
        newest = self._newest(db)
        return newest is not None and newest.epoch > branch.handle.epoch

    def _newest(self, db: sqlite3.Connection) -> Marker | None:
        newest = "SELECT handle, epoch FROM markers WHERE sink = ? AND epoch >= 0"
        found = db.execute(f"{newest} ORDER BY epoch DESC, generation DESC LIMIT 1", (self.sink,)).fetchone()
        return Marker(found["epoch"], Handle.parse(found["handle"])) if found else None

    def _has(self, db: sqlite3.Connection, table: str, handle: Handle) -> bool:
        return db.execute(f"SELECT 1 FROM {table} WHERE handle = ?", (str(handle),)).fetchone() is not None
