"""Which decided effects are due, and the outcome of each call: claimed before it, noted after it, durable both times.

An effect is due when its epoch is complete, which the caller knows, and its pause is over. Claims are made under a
coordinator's term: whoever has a later one takes over, and the one before gets no more. What came of a call that was
under way then is not known.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tpc.errors import FencedError
from tpc.sink import Owner
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import OPEN, Effect, Fate, Guarantee
from tpc.sinks.effects.python_rows import python_row

ANSWER_MAX = 2000
DIED = "the process that called died in the call, or was overtaken"


@dataclass(frozen=True)
class Claim:
    """An effect that nobody else calls now."""

    number: int
    effect: Effect
    attempt: int


class Calls:
    """The effects of one sink of one pipeline, as their carrier sees them.

    `ours` are the terms of that carrier, of which one must stand here: the newest, or also the one before it where the
    answer to its renewal was lost.
    """

    def __init__(self, database: Database, sink: str) -> None:
        self.database, self.sink = database, sink
        self._ahead_s = time.time() - time.monotonic()

    def _now(self) -> float:
        """Seconds since 1970 when this object was made, and from then on by a clock that nobody sets.

        A pause is neither longer nor shorter when the machine's clock is put back or forward meanwhile.
        """
        return self._ahead_s + time.monotonic()

    def begin_term(self, owner: Owner, guarantee: Guarantee) -> None:
        """Claim under this term from now on. What was being called under another one is called again, or unknown.

        Raises `FencedError` when a later one has begun.
        """
        after = Fate.WAITING if guarantee is Guarantee.AT_LEAST_ONCE else Fate.UNKNOWN
        with self.database.transaction() as db:
            found = db.execute("SELECT generation FROM carriers WHERE sink = ?", (self.sink,)).fetchone()
            if found is not None and found["generation"] > owner.generation:
                raise FencedError("another coordinator carries out the effects")
            db.execute("INSERT OR REPLACE INTO carriers VALUES (?, ?, ?)", (self.sink, owner.generation, owner.nonce))
            db.execute(
                "UPDATE effects SET state = ?, answer = ?, changed_at = ? WHERE sink = ? AND state = ?",
                (after.value, DIED, self._now(), self.sink, Fate.CALLING.value),
            )
            db.execute(  # the clock was put back since these were noted: their pauses begin now
                "UPDATE effects SET not_before = ? + max(0, not_before - changed_at), changed_at = ? "
                "WHERE sink = ? AND state = ? AND changed_at > ?",
                (self._now(), self._now(), self.sink, Fate.WAITING.value, self._now()),
            )

    def renew(self, ours: Collection[Owner], after: Owner) -> None:
        """The same carrier goes on under its coordinator's next term. Raises `FencedError`."""
        with self.database.transaction() as db:
            self._require(db, ours)
            values = (after.generation, after.nonce, self.sink)
            db.execute("UPDATE carriers SET generation = ?, nonce = ? WHERE sink = ?", values)

    def claim(self, ours: Collection[Owner], complete: int) -> Claim | None:
        """The next effect of an epoch up to `complete` whose time has come. Raises `FencedError`."""
        with self.database.transaction() as db:
            self._require(db, ours)
            found = db.execute(
                "SELECT * FROM effects WHERE sink = ? AND state = ? AND not_before <= ? AND epoch <= ? "
                "ORDER BY not_before, id LIMIT 1",
                (self.sink, Fate.WAITING.value, self._now(), complete),
            ).fetchone()
            if found is None:
                return None
            db.execute(
                "UPDATE effects SET state = ?, attempts = attempts + 1, changed_at = ? WHERE id = ?",
                (Fate.CALLING.value, self._now(), found["id"]),
            )
        effect = Effect(found["key"], python_row(found["row"], found["types"]), found["epoch"], found["refusals"])
        return Claim(found["id"], effect, found["attempts"] + 1)

    def done(self, claim: Claim, answer: str) -> None:
        """It was carried out: known now, whoever claims by now."""
        with self.database.transaction() as db:
            db.execute(
                "UPDATE effects SET state = ?, answer = ?, changed_at = ? WHERE id = ?",
                (Fate.DONE.value, answer[:ANSWER_MAX], time.time(), claim.number),
            )

    def not_done(
        self, ours: Collection[Owner], claim: Claim, fate: Fate, answer: str, *, refused: bool, pause_s: float
    ) -> None:
        """What is to follow. Raises `FencedError` when another carrier has taken over, which knows better."""
        with self.database.transaction() as db:
            self._require(db, ours)
            now = self._now()
            db.execute(
                "UPDATE effects SET state = ?, answer = ?, refusals = refusals + ?, not_before = ?, changed_at = ? "
                "WHERE id = ? AND state = ?",  # not of one that an overtaken carrier has noted as done meanwhile
                (
                    *(fate.value, answer[:ANSWER_MAX], int(refused), now + pause_s, now),
                    *(claim.number, Fate.CALLING.value),
                ),
            )

    def open_effects(self, complete: int) -> tuple[int, str]:
        """How many effects of epochs up to `complete` are still to be carried out; of one its key and last answer."""
        with self.database.transaction() as db:
            found = db.execute(
                "SELECT count(*) OVER () AS number, key, answer FROM effects "
                "WHERE sink = ? AND state IN (?, ?) AND epoch <= ? ORDER BY attempts DESC, id LIMIT 1",
                (self.sink, *(fate.value for fate in OPEN), complete),
            ).fetchone()
        return (found["number"], f"{found['key']}: {found['answer'] or 'not answered yet'}") if found else (0, "")

    def next_due_s(self, complete: int) -> float | None:
        """In how many seconds the next effect is due; None when none is."""
        with self.database.transaction() as db:
            found = db.execute(
                "SELECT min(not_before) AS at FROM effects WHERE sink = ? AND state = ? AND epoch <= ?",
                (self.sink, Fate.WAITING.value, complete),
            ).fetchone()
        return None if found["at"] is None else max(0.0, found["at"] - self._now())

    def _require(self, db: sqlite3.Connection, ours: Collection[Owner]) -> None:
        found = db.execute("SELECT generation, nonce FROM carriers WHERE sink = ?", (self.sink,)).fetchone()
        terms = {(owner.generation, owner.nonce) for owner in ours}
        if found is None or (found["generation"], found["nonce"]) not in terms:
            raise FencedError("another coordinator carries out the effects")


@dataclass(frozen=True)
class Listed:
    """An effect as operators see it."""

    sink: str
    epoch: int
    key: str
    row: str
    fate: Fate
    refusals: int
    attempts: int
    answer: str


def listed(database: Database, fates: Iterable[Fate], limit: int) -> list[Listed]:
    """Effects of any pipeline and sink in these states, oldest first."""
    wanted = [fate.value for fate in fates]
    with database.transaction() as db:
        found = db.execute(
            "SELECT sink, epoch, key, row, state AS fate, refusals, attempts, answer FROM effects "
            f"WHERE state IN ({', '.join('?' * len(wanted))}) ORDER BY id LIMIT ?",
            (*wanted, limit),
        ).fetchall()
    return [Listed(**{**dict(one), "fate": Fate(one["fate"])}) for one in found]


def counts(database: Database) -> dict[tuple[str, Fate], int]:
    """How many effects there are of each sink in each state."""
    with database.transaction() as db:
        found = db.execute("SELECT sink, state, count(*) FROM effects GROUP BY sink, state ORDER BY sink, state")
        return {(sink, Fate(state)): number for sink, state, number in found.fetchall()}


def settle(database: Database, key: str, fate: Fate, answer: str) -> int:
    """By hand: an effect that is dead or unknown is to be called again (WAITING), or done. How many that were."""
    with database.transaction() as db:
        return db.execute(
            "UPDATE effects SET state = ?, refusals = 0, not_before = 0, answer = ?, changed_at = ? "
            "WHERE key = ? AND state IN (?, ?)",
            (fate.value, answer, time.time(), key, Fate.DEAD.value, Fate.UNKNOWN.value),
        ).rowcount
