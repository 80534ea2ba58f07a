"""Brings the changes of complete epochs into the entries of a store: many epochs together, a few keys at a time.

A key that several epochs have changed is brought in once, as the newest has left it. What is compacted is no longer
kept apart, in one transaction: at every moment entries and changes together are the same content. Each of these
transactions is durable, as all are: were some not, an fsync that fails for an epoch's could leave a hole before it in
the write-ahead log, which takes with it, when the power goes, what came after.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

import pyarrow

from tpc import failpoints
from tpc.coordinator.loop.state import rules
from tpc.coordinator.loop.state.changes import SCHEMA, Change
from tpc.coordinator.loop.state.database import Database
from tpc.coordinator.loop.state.parts import changes_of, drop_delta, drop_parts, newest_of, parts_of, size_of
from tpc.coordinator.loop.state.store import content_of

KEYS_AT_ONCE = 500
"""In one transaction: an epoch that wants to write meanwhile waits for some milliseconds. Each has an fsync."""

TOGETHER_BYTES = 64 << 20
"""Of changes that are compacted together, in memory; those of one epoch are at any rate."""

_IN_STATEMENT = 250
"""Rows. SQLite before 3.32 takes 999 values in a statement."""


class Kept(NamedTuple):
    """How much is kept apart: the deltas of applied epochs, and their rows."""

    deltas: int
    rows: int

    def exceeds(self, most: Kept) -> bool:
        """Whether it is more than that, in one way or the other."""
        return self.deltas > most.deltas or self.rows > most.rows

    @property
    def transactions_an_epoch(self) -> int:
        """So many for each epoch that follows bring in what it adds, at least."""
        return 1 + ceil(self.rows / max(1, self.deltas) / KEYS_AT_ONCE)


NOTHING = Kept(0, 0)


class _Delta(NamedTuple):
    """One that is due. Two that look alike are the same: a handle is used once."""

    number: int
    handle: str
    epoch: int
    rows: int
    upto: bytes | None


class _Due(NamedTuple):
    """What is compacted together: the newest rows of these deltas, and the last key of each of their parts."""

    deltas: tuple[_Delta, ...]
    rows: pyarrow.Table
    ends: list[tuple[bytes, int]]


def kept(database: Database, owned: str) -> Kept:
    """How much is. Raises as `Database` does."""
    with database.reading("looking for what is kept apart in") as reading:
        return _kept(_deltas(reading, owned))


def compact(
    database: Database,
    owned: str,
    complete: int,
    down_to: Kept = NOTHING,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """The changes of the epochs up to `complete`, the oldest first, until no more than `down_to` is kept apart.

    Raises as `Database` does. `goes_on` is asked before each transaction, and ends it sooner.
    """
    while goes_on():
        with database.reading("looking for what is kept apart in") as reading:
            due = _due(reading, owned, complete, down_to)
        if due is None:
            return
        _bring_in(database, owned, due, goes_on)


def _deltas(connection: sqlite3.Connection, owned: str) -> list[_Delta]:
    columns = "SELECT delta, handle, epoch, rows, upto FROM deltas"
    found = connection.execute(f"{columns} WHERE owned = ? AND applied > 0 ORDER BY epoch, handle", [owned])
    return list(map(_Delta._make, found))


def _kept(deltas: Sequence[_Delta]) -> Kept:
    return Kept(len(deltas), sum(delta.rows for delta in deltas))


def _due(connection: sqlite3.Connection, owned: str, complete: int, down_to: Kept) -> _Due | None:
    """The oldest deltas without which no more than `down_to` is kept, or the first of them."""
    deltas = _deltas(connection, owned)
    order = rules.to_compact([delta.epoch for delta in deltas], complete)
    mine = sorted((delta for delta in deltas if delta.epoch in order), key=lambda delta: order.index(delta.epoch))
    left, size_bytes = _kept(deltas), 0
    due, tables, ends = list[_Delta](), list[pyarrow.Table](), list[tuple[bytes, int]]()
    for delta in mine:
        size_bytes += size_of(connection, delta.number)
        if not left.exceeds(down_to) or (due and size_bytes > TOGETHER_BYTES):
            break
        parts = [part for part in parts_of(connection, delta.number, delta.upto) if part.rows.num_rows]
        ends += [(part.rows["key"][-1].as_py(), part.number) for part in parts]
        tables.append(pyarrow.Table.from_batches([part.rows for part in parts], SCHEMA))
        due.append(delta)
        left = Kept(left.deltas - 1, left.rows - delta.rows)
    return _Due(tuple(due), newest_of(tables), sorted(ends, reverse=True)) if due else None


def _bring_in(database: Database, owned: str, due: _Due, goes_on: Callable[[], bool]) -> None:
    """All that is due, as long as it `goes_on`, and until another process has compacted some of it."""
    deltas, ends = due.deltas, due.ends
    for first in range(0, max(1, due.rows.num_rows), KEYS_AT_ONCE):
        if first and not goes_on():
            return
        some = changes_of(due.rows.slice(first, KEYS_AT_ONCE))
        is_last = first + KEYS_AT_ONCE >= due.rows.num_rows
        with database.transaction("compacting") as transaction:
            if not set(deltas) <= set(_deltas(transaction, owned)):
                return
            _put(transaction, content_of(transaction, owned, make=True), some)
            if is_last:
                for delta in deltas:
                    drop_delta(transaction, delta.number)
            else:
                upto = some[-1].key
                deltas = tuple(delta._replace(upto=max(delta.upto or upto, upto)) for delta in deltas)
                said = "UPDATE deltas SET upto = ?, applied = 2 WHERE delta = ?"
                transaction.executemany(said, [(delta.upto, delta.number) for delta in deltas])
                drop_parts(transaction, _taken(ends, upto))
            for delta in deltas:
                failpoints.hit("state.compacted", sink=database.sink, epoch=delta.epoch)


def _taken(ends: list[tuple[bytes, int]], upto: bytes) -> Iterator[int]:
    """The parts that end by then, once."""
    while ends and ends[-1][0] <= upto:
        yield ends.pop()[1]


def _put(transaction: sqlite3.Connection, content: int, changes: Sequence[Change]) -> None:
    """Many rows in one statement.

    Row by row, each would wait for the interpreter's lock, which a busy service gives away every 5 ms.
    """
    over = "ON CONFLICT (content, key) DO UPDATE SET value = excluded.value, expires_ms = excluded.expires_ms"
    there = [change for change in changes if change.value is not None]
    for first in range(0, len(there), _IN_STATEMENT):
        some = there[first : first + _IN_STATEMENT]
        rows = ",".join([f"({content}, ?, ?, ?)"] * len(some))
        transaction.execute(f"INSERT INTO entries VALUES {rows} {over}", [cell for change in some for cell in change])
    gone = [change.key for change in changes if change.value is None]
    for first in range(0, len(gone), _IN_STATEMENT):
        keys = gone[first : first + _IN_STATEMENT]
        places = ",".join("?" * len(keys))
        transaction.execute(f"DELETE FROM entries WHERE content = {content} AND key IN ({places})", keys)
