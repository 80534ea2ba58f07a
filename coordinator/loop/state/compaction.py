"""Brings the changes of complete epochs into the entries of a store, a few keys at a time.

A change that is compacted is no longer kept apart, in one transaction: at every moment entries and changes together are
the same content. Each of these transactions is durable, as all are: were some not, an fsync that fails for an epoch's
could leave a hole before it in the write-ahead log, which takes with it, when the power goes, what came after.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from tpc import failpoints
from tpc.coordinator.loop.state import rules
from tpc.coordinator.loop.state.database import Database
from tpc.coordinator.loop.state.store import content_of, kept_apart

AT_ONCE = 500
"""Keys in one transaction: an epoch that wants to write meanwhile waits for some milliseconds. Each has an fsync."""


class Kept(NamedTuple):
    """How much is kept apart: the deltas of applied epochs, and their rows."""

    deltas: int
    rows: int


NOTHING = Kept(0, 0)


def compact(
    database: Database,
    owned: str,
    complete: int,
    down_to: Kept = NOTHING,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """The changes of the epochs up to `complete`, the oldest first, until no more than `down_to` is kept apart.

    Raises as `Database` does. Ends sooner, between two transactions, when it `is_stopped`.
    """
    with database.reading("looking for what is kept apart in") as reading:
        due = _next(reading, owned, complete, down_to)
    while due is not None and not is_stopped():
        with database.transaction("compacting") as transaction:
            due = _next(transaction, owned, complete, down_to)
            if due is not None:
                epoch, delta = due
                _compact_some(transaction, content_of(transaction, owned, make=True), delta)
                failpoints.hit("state.compacted", sink=database.sink, epoch=epoch)


def _next(connection: sqlite3.Connection, owned: str, complete: int, down_to: Kept) -> tuple[int, int] | None:
    """The epoch that comes next, and its delta. Asked in every transaction: another process may compact as well."""
    question = "SELECT count(*), total(rows) FROM deltas WHERE owned = ? AND applied > 0"
    deltas, rows = connection.execute(question, [owned]).fetchone()
    if deltas <= down_to.deltas and rows <= down_to.rows:
        return None
    kept = kept_apart(connection, owned)
    due = rules.to_compact([each.epoch for each in kept], complete)
    return next(((each.epoch, each.delta) for each in kept if due and each.epoch == due[0]), None)


def _compact_some(transaction: sqlite3.Connection, content: int, delta: int) -> None:
    """The next keys of a delta, which goes with its last. One statement for all of them.

    Row by row, each would wait for the interpreter's lock, which a busy service gives away every 5 ms.
    """
    question = "SELECT key FROM changes WHERE delta = ? ORDER BY key LIMIT 1 OFFSET ?"
    last = transaction.execute(question, (delta, AT_ONCE - 1)).fetchone()
    some, which = ("delta = ? AND key <= ?", (delta, last[0])) if last else ("delta = ?", (delta,))
    put = f"SELECT ?, key, value, expires_ms FROM changes WHERE {some} AND value IS NOT NULL"
    gone = f"SELECT key FROM changes WHERE {some} AND value IS NULL"
    over = "ON CONFLICT (content, key) DO UPDATE SET value = excluded.value, expires_ms = excluded.expires_ms"
    transaction.execute(f"INSERT INTO entries {put} {over}", (content, *which))
    transaction.execute(f"DELETE FROM entries WHERE content = ? AND key IN ({gone})", (content, *which))
    transaction.execute(f"DELETE FROM changes WHERE {some}", which)
    if last is None:
        transaction.execute("DELETE FROM deltas WHERE delta = ?", (delta,))
    else:
        transaction.execute("UPDATE deltas SET rows = rows - ?, applied = 2 WHERE delta = ?", (AT_ONCE, delta))
