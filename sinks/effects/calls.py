"""Which decided effects are due, and the outcome of each call: a claim before it, a note after it, both durable.

An effect is due when its epoch is complete (the caller knows that) and its pause is over. Claims are made under a
coordinator's generation. A carrier of a later generation takes over, and the one before gets no more claims. The
outcome of a call that was under way then is unknown.
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
DIED = "the process that made the call died in it, or another one took over"


@dataclass(frozen=True)
class Claim:
    """An effect that this carrier alone may call now."""

    number: int
    effect: Effect
    attempt: int


class Calls:
    """The effects of one sink of one pipeline, for their carrier.

    `ours` are the generations of that carrier, one of which must be in the outbox: the newest, or also the one before
    it, if the answer to its renewal was lost.
    """

    def __init__(self, database: Database, sink: str) -> None:
        self.database, self.sink = database, sink
        self._ahead_s = time.time() - time.monotonic()

    def _now(self) -> float:
        """Seconds since 1970 at the creation of this object, and from then on by the monotonic clock.

        So a pause keeps its length if the machine's clock is set meanwhile.
        """
        return self._ahead_s + time.monotonic()

    def begin_term(self, owner: Owner, guarantee: Guarantee) -> None:
        """Claim under this generation from now on. A call under way of another one is repeated, or becomes unknown.

        Raises `FencedError` if a later generation has begun.
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
            db.execute(  # the clock was set back since these were noted: their pauses begin now
                "UPDATE effects SET not_before = ? + max(0, not_before - changed_at), changed_at = ? "
                "WHERE sink = ? AND state = ? AND changed_at > ?",
                (self._now(), self._now(), self.sink, Fate.WAITING.value, self._now()),
            )

    def renew(self, ours: Collection[Owner], after: Owner) -> None:
        """The same carrier goes on under its coordinator's next generation. Raises `FencedError`."""
        with self.database.transaction() as db:
            self._require(db, ours)
            values = (after.generation, after.nonce, self.sink)
            db.execute("UPDATE carriers SET generation = ?, nonce = ? WHERE sink = ?", values)

    def claim(self, ours: Collection[Owner], complete: int) -> Claim | None:
        """The next effect of an epoch up to `complete` that is due. Raises `FencedError`."""
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
        """Note that it was carried out, whichever carrier has taken over meanwhile."""
        with self.database.transaction() as db:
            db.execute(
                "UPDATE effects SET state = ?, answer = ?, changed_at = ? WHERE id = ?",
                (Fate.DONE.value, answer[:ANSWER_MAX], time.time(), claim.number),
            )

    def not_done(
        self, ours: Collection[Owner], claim: Claim, fate: Fate, answer: str, *, refused: bool, pause_s: float
    ) -> None:
        """Note what follows. Raises `FencedError` if another carrier has taken over: that one has noted the effect."""
        with self.database.transaction() as db:
            self._require(db, ours)
            now = self._now()
            db.execute(
                "UPDATE effects SET state = ?, answer = ?, refusals = refusals + ?, not_before = ?, changed_at = ? "
                "WHERE id = ? AND state = ?",  # a fenced carrier may have noted it as done meanwhile, and that stays
                (
                    *(fate.value, answer[:ANSWER_MAX], int(refused), now + pause_s, now),
                    *(claim.number, Fate.CALLING.value),
                ),
            )

    def open_effects(self, complete: int) -> tuple[int, str]:
        """How many effects of epochs up to `complete` are not carried out yet; key and last answer of one of them."""
        with self.database.transaction() as db:
            found = db.execute(
                "SELECT count(*) OVER () AS number, key, answer FROM effects "
                "WHERE sink = ? AND state IN (?, ?) AND epoch <= ? ORDER BY attempts DESC, id LIMIT 1",
                (self.sink, *(fate.value for fate in OPEN), complete),
            ).fetchone()
        return (found["number"], f"{found['key']}: {found['answer'] or 'not answered yet'}") if found else (0, "")

    def next_due_s(self, complete: int) -> float | None:
        """In how many seconds the next effect is due; None if there is none."""
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
    """An effect as it is shown to operators."""

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
    """The number of effects by sink and state."""
    with database.transaction() as db:
        found = db.execute("SELECT sink, state, count(*) FROM effects GROUP BY sink, state ORDER BY sink, state")
        return {(sink, Fate(state)): number for sink, state, number in found.fetchall()}


def settle(database: Database, key: str, fate: Fate, answer: str) -> int:
    """Record a person's decision on a dead or unknown effect: call it again (WAITING), or done. How many were found."""
    with database.transaction() as db:
        return db.execute(
            "UPDATE effects SET state = ?, refusals = 0, not_before = 0, answer = ?, changed_at = ? "
            "WHERE key = ? AND state IN (?, ?)",
            (fate.value, answer, time.time(), key, Fate.DEAD.value, Fate.UNKNOWN.value),
        ).rowcount
