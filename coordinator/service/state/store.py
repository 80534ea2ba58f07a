"""What a state's store holds of one pipeline and incarnation: read only, at the newest applied epoch or before it.

That is its entries, and over them the changes of those applied epochs that are kept apart.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.database import Database
from tpc.coordinator.service.state.parts import changes_of, parts_of
from tpc.coordinator.service.state.rules import NO_EPOCH, epoch_before, not_undoable
from tpc.errors import StateLostError
from tpc.handles import PipelineId
from tpc.sink import Owner

if TYPE_CHECKING:
    from tpc.coordinator.service.state.sink import StateSink

NO_CONTENT = -1
_READ_AT_ONCE = 10_000
_ASKED_AT_ONCE = 500
_ENDS_AT_ONCE = 100


class Loaded(NamedTuple):
    """A content: at which epoch, its values, and when those keys expire that do."""

    epoch: int
    values: dict[bytes, bytes]
    expires_ms: dict[bytes, int]

    def put(self, over: Mapping[bytes, tuple[int, Change]]) -> None:
        """What lies over it, each with its epoch."""
        for key, (_, change) in over.items():
            put(self.values, self.expires_ms, key, change)


class Over(NamedTuple):
    """What lies over the entries of a content, each with its epoch; how many keys there are in all."""

    epoch: int
    changes: dict[bytes, tuple[int, Change]]
    keys: int


class Store:
    """Reads through a connection of its own, beside the committer's."""

    def __init__(self, sink: StateSink, pipeline: PipelineId) -> None:
        self.name = sink.name
        self.owned = f"{pipeline.prefix}{sink.name}"
        self.database = Database(sink.path, sink.timeout_s, sink.name)
        self.directory = sink.directory

    def applied(self) -> int:
        """The newest epoch applied, `NO_EPOCH` if none is."""
        if not self.database.is_there():
            return NO_EPOCH
        with self.database.reading("asking") as reading:
            return applied(reading, self.owned)

    def load(self, before: int | None) -> Loaded:
        """All of it, as it is or as it was before an epoch.

        Raises `StateLostError` when an epoch is complete and cannot be taken back any more.
        """
        if not self.database.is_there():
            return Loaded(NO_EPOCH, {}, {})
        values = "SELECT key, value FROM entries WHERE content = ?"
        expiring = "SELECT key, expires_ms FROM entries WHERE content = ? AND expires_ms IS NOT NULL"
        with self.database.reading("loading") as reading:
            epoch, over = self._over(reading, before)
            content = [content_of(reading, self.owned)]
            loaded = Loaded(epoch, dict(reading.execute(values, content)), dict(reading.execute(expiring, content)))
        loaded.put(over)
        return loaded

    def over(self, before: int | None) -> Over:
        """The same but for the entries, which `get`, `sorted_keys` and `due` read. Raises as `load` does."""
        if not self.database.is_there():
            return Over(NO_EPOCH, {}, 0)
        counted = "SELECT count(*) FROM entries WHERE content = ?"
        there = "SELECT count(*) FROM entries WHERE content = ? AND key = ?"
        with self.database.reading("reading what is kept apart in") as reading:
            epoch, over = self._over(reading, before)
            content = content_of(reading, self.owned)
            count = reading.execute(counted, [content]).fetchone()[0]
            for key, (_, change) in over.items():
                count += (change.value is not None) - reading.execute(there, (content, key)).fetchone()[0]
        return Over(epoch, over, count)

    def compacted(self) -> int:
        """All epochs up to this one are in the entries, as far as they are applied."""
        with self.database.reading("asking") as reading:
            kept = kept_apart(reading, self.owned)
            return kept[0].epoch - 1 if kept else applied(reading, self.owned)

    def _over(self, reading: sqlite3.Connection, before: int | None) -> tuple[int, dict[bytes, tuple[int, Change]]]:
        """At which epoch the content is, and what lies over the entries, each with its epoch."""
        rows = reading.execute("SELECT DISTINCT epoch FROM markers WHERE owned = ?", [self.owned]).fetchall()
        marked, kept = [epoch for (epoch,) in rows], kept_apart(reading, self.owned)
        whole = [one.epoch for one in kept if one.is_whole]
        if before is not None and (missing := not_undoable(before, marked, whole)):
            raise StateLostError(
                f"the state {self.name} is at epoch {max(marked)}, and epoch {missing[0]} cannot be "
                "taken back any more",
                epoch=before,
                sink=self.name,
                remedy="record a decision about the lost branch: `tpc resolve`.",
            )
        over: dict[bytes, tuple[int, Change]] = {}
        for each in kept:
            if before is None or each.epoch < before:
                for part in parts_of(reading, each.delta, each.upto):
                    over.update((change.key, (each.epoch, change)) for change in changes_of(part.rows))
        return max(marked, default=NO_EPOCH) if before is None else epoch_before(before, marked), over

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Change]:
        """Those of the keys that the entries have. Parts of them may be read at different moments."""
        found: dict[bytes, Change] = {}
        for first in range(0, len(keys), _ASKED_AT_ONCE):
            some = keys[first : first + _ASKED_AT_ONCE]
            for row in self.database.asked("reading", _question(len(some)), (self.owned, *some)):
                found[row[0]] = Change._make(row)
        return found

    def sorted_keys(self) -> Iterator[bytes]:
        """Every key of the entries, in the order of their bytes, a part at a time."""
        question = "SELECT key FROM entries WHERE content = ? AND key > ? ORDER BY key LIMIT ?"
        last = b""
        while True:
            with self.database.reading("reading the keys of") as reading:
                content = content_of(reading, self.owned)
                found = [row[0] for row in reading.execute(question, (content, last, _READ_AT_ONCE))]
            yield from found
            if len(found) < _READ_AT_ONCE:
                return
            last = found[-1]

    def due(self, watermark_ms: int) -> list[tuple[int, bytes]]:
        """When those keys of the entries end that do by then."""
        question = "SELECT expires_ms, key FROM entries WHERE content = ? AND expires_ms <= ?"
        with self.database.reading("looking for what has expired in") as reading:
            return list(reading.execute(question, (content_of(reading, self.owned), watermark_ms)))

    def ends(self) -> Iterator[tuple[int, bytes]]:
        """When keys of the entries end, the first ones first, a part at a time. Parts may be read at different moments.

        By the index `expiring`: who wants the first reads some.
        """
        question = (
            "SELECT expires_ms, key FROM entries WHERE content = ? AND expires_ms IS NOT NULL "
            "AND (expires_ms, key) > (?, ?) ORDER BY expires_ms, key LIMIT ?"
        )
        last, at_once = (-(2**63), b""), _ENDS_AT_ONCE
        while self.database.is_there():
            with self.database.reading("looking for what ends first in") as reading:
                content = content_of(reading, self.owned)
                found = list(reading.execute(question, (content, *last, at_once)))
            yield from found
            if len(found) < at_once:
                return
            last, at_once = found[-1], _READ_AT_ONCE

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()


@cache
def _question(keys: int) -> str:
    of_content = "content = (SELECT content FROM contents WHERE owned = ?)"
    return f"SELECT key, value, expires_ms FROM entries WHERE {of_content} AND key IN ({','.join('?' * keys)})"


def put(values: dict[bytes, bytes], expires_ms: dict[bytes, int], key: bytes, change: Change) -> None:
    """A change of one key, into a content in memory."""
    if change.value is None:
        values.pop(key, None)
    else:
        values[key] = change.value
    if change.expires_ms is not None:
        expires_ms[key] = change.expires_ms
    elif expires_ms:
        expires_ms.pop(key, None)


class KeptApart(NamedTuple):
    """A delta that is applied and not compacted. Of one that is not whole, the keys up to `upto` are in the entries.

    Two that look alike are the same: a number may come again, a handle does not.
    """

    epoch: int
    delta: int
    handle: str
    rows: int
    is_whole: bool
    upto: bytes | None


def kept_apart(connection: sqlite3.Connection, owned: str) -> list[KeptApart]:
    """What of a content is kept apart, the oldest first."""
    columns = "SELECT epoch, delta, handle, rows, applied = 1, upto FROM deltas"
    found = connection.execute(f"{columns} WHERE owned = ? AND applied > 0 ORDER BY epoch, handle", [owned])
    return list(map(KeptApart._make, found))


def applied(connection: sqlite3.Connection, owned: str) -> int:
    """The newest epoch that a content has applied."""
    found = connection.execute("SELECT max(epoch) FROM markers WHERE owned = ?", [owned]).fetchone()[0]
    return NO_EPOCH if found is None else int(found)


def content_of(connection: sqlite3.Connection, owned: str, *, make: bool = False) -> int:
    """The number under which the entries of a pipeline and incarnation stand; `NO_CONTENT` if there are none."""
    if make:
        connection.execute("INSERT OR IGNORE INTO contents (owned) VALUES (?)", [owned])
    found = connection.execute("SELECT content FROM contents WHERE owned = ?", [owned]).fetchone()
    return NO_CONTENT if found is None else int(found[0])


def owner_of(connection: sqlite3.Connection, owned: str) -> Owner | None:
    """The owner entry of a pipeline and incarnation."""
    found = connection.execute("SELECT generation, nonce, since FROM owners WHERE owned = ?", [owned]).fetchone()
    return Owner(*found) if found else None
