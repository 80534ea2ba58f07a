"""Brings the changes of complete epochs into the entries of a store: many epochs together, a few keys at a time.

A key that several epochs have changed is brought in once, as the newest has left it. What is compacted is no longer
kept apart, in one transaction: at every moment entries and changes together are the same content. Each of these
transactions is durable, as all are: were some not, an fsync that fails for an epoch's could leave a hole before it in
the write-ahead log, which takes with it, when the power goes, what came after.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

import pyarrow

from tpc import failpoints
from tpc.coordinator.service.state import rules
from tpc.coordinator.service.state.changes import SCHEMA, Change
from tpc.coordinator.service.state.database import Database
from tpc.coordinator.service.state.parts import Part, changes_of, drop_delta, drop_part, newest_of, parts_of, size_of
from tpc.coordinator.service.state.store import KeptApart, content_of, kept_apart
from tpc.errors import TransientError

KEYS_AT_ONCE = 500
"""In one transaction, at least: an epoch that wants to write waits for some milliseconds. Each has an fsync."""
_OF_AN_EPOCH = 20
"""In one transaction a twentieth of what an epoch changes, if that is more: a small part of the time that one takes."""

TOGETHER_BYTES = 64 << 20
"""Of changes that are compacted together, in memory; those of one epoch are at any rate."""

_IN_STATEMENT = 1_000 if sqlite3.sqlite_version_info >= (3, 32) else 250
"""Rows; SQLite of before takes 999 values in a statement."""


class Backlog(NamedTuple):
    """How much is kept apart: the deltas of applied epochs, and their rows."""

    deltas: int
    rows: int

    def exceeds(self, most: Backlog) -> bool:
        """Whether it is more than that, in one way or the other."""
        return self.deltas > most.deltas or self.rows > most.rows

    @property
    def keys_at_once(self) -> int:
        """How many are compacted in one transaction."""
        return max(KEYS_AT_ONCE, self.rows // max(1, self.deltas) // _OF_AN_EPOCH)

    @property
    def transactions_an_epoch(self) -> int:
        """So many for each epoch that follows bring in what it adds, and one more, to come to an end."""
        return 1 + ceil(self.rows / max(1, self.deltas) / self.keys_at_once)


NOTHING = Backlog(0, 0)


class _Due(NamedTuple):
    """What is compacted together: the newest rows of these deltas, and their parts, the one that ends last first."""

    deltas: tuple[KeptApart, ...]
    rows: pyarrow.Table
    parts: list[Part]
    at_once: int


def backlog(database: Database, owned: str) -> Backlog:
    """How much is. Raises as `Database` does."""
    with database.reading("looking for what is kept apart in") as reading:
        return _backlog(kept_apart(reading, owned))


def compact(
    database: Database,
    owned: str,
    complete: int,
    down_to: Backlog = NOTHING,
    goes_on: Callable[[], bool] = lambda: True,
) -> None:
    """The changes of the epochs up to `complete`, the oldest first, until no more than `down_to` is kept apart.

    Raises as `Database` does. `goes_on` is asked before each transaction, and before it is looked whether there is one;
    it ends it sooner.
    """
    while goes_on():
        try:
            with database.reading("looking for what is kept apart in") as reading:
                due = _due(reading, owned, complete, down_to)
        except pyarrow.ArrowException as error:
            what = f"what is kept apart in the state {database.path} cannot be merged: {error}"
            raise TransientError(what, sink=database.sink) from error
        if due is None:
            return
        _bring_in(database, owned, due, goes_on)


def _backlog(deltas: Sequence[KeptApart]) -> Backlog:
    return Backlog(len(deltas), sum(delta.rows for delta in deltas))


def _due(connection: sqlite3.Connection, owned: str, complete: int, down_to: Backlog) -> _Due | None:
    """The oldest deltas without which no more than `down_to` is kept, or the first of them."""
    deltas = kept_apart(connection, owned)
    order = rules.to_compact([delta.epoch for delta in deltas], complete)
    mine = sorted((each for each in deltas if each.epoch in order), key=lambda each: order.index(each.epoch))
    left, size_bytes = _backlog(deltas), 0
    at_once = left.keys_at_once
    due, tables, parts = list[KeptApart](), list[pyarrow.Table](), list[Part]()
    for each in mine:
        size_bytes += size_of(connection, each.delta)
        if not left.exceeds(down_to) or (due and size_bytes > TOGETHER_BYTES):
            break
        of_delta = list(parts_of(connection, each.delta, each.upto))
        tables.append(pyarrow.Table.from_batches([part.rows for part in of_delta], SCHEMA))
        parts += of_delta
        due.append(each)
        left = Backlog(left.deltas - 1, left.rows - each.rows)
    parts.sort(key=lambda part: part.end or b"", reverse=True)
    return _Due(tuple(due), newest_of(tables), parts, at_once) if due else None


def _bring_in(database: Database, owned: str, due: _Due, goes_on: Callable[[], bool]) -> None:
    """All that is due, as long as it `goes_on`, and until another process has compacted some of it.

    After each transaction no key up to `upto` is left in any of these deltas, and none of them is gone before the last:
    nothing old ever lies over what a newer one has brought in.
    """
    deltas, parts = due.deltas, due.parts
    for first in range(0, max(1, due.rows.num_rows), due.at_once):
        if first and not goes_on():
            return
        some = changes_of(due.rows.slice(first, due.at_once))
        is_last = first + due.at_once >= due.rows.num_rows
        with database.transaction("compacting") as transaction:
            if not set(deltas) <= set(kept_apart(transaction, owned)):
                return
            _put(transaction, content_of(transaction, owned, make=True), some)
            if is_last:
                for each in deltas:
                    drop_delta(transaction, each.delta)
            else:
                upto = some[-1].key
                deltas = tuple(_compacted(transaction, each, upto) for each in deltas)
                while parts and (parts[-1].end or b"") <= upto:
                    drop_part(transaction, parts.pop())
            for each in deltas:
                failpoints.hit("state.compacted", sink=database.sink, epoch=each.epoch)


def _compacted(transaction: sqlite3.Connection, delta: KeptApart, upto: bytes) -> KeptApart:
    """Up to this key, or further if it was."""
    upto = max(delta.upto or upto, upto)
    transaction.execute("UPDATE deltas SET upto = ?, applied = 2 WHERE delta = ?", (upto, delta.delta))
    return delta._replace(upto=upto, is_whole=False)


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
