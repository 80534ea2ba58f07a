"""What a state's store holds of one pipeline and incarnation: read only, at the newest applied epoch or before it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpc.coordinator.loop.state import changes
from tpc.coordinator.loop.state.database import Database
from tpc.coordinator.loop.state.rules import NO_EPOCH, epoch_before, not_undoable
from tpc.errors import StateLostError
from tpc.handles import PipelineId

if TYPE_CHECKING:
    from tpc.coordinator.loop.state.sink import StateSink

NO_CONTENT = -1
_READ_AT_ONCE = 10_000


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

    def load(self) -> tuple[dict[bytes, bytes], dict[bytes, int]]:
        """Every key's value, in the order of the keys' bytes, and when those expire that do."""
        if not self.database.is_there():
            return {}, {}
        values = "SELECT key, value FROM entries WHERE content = ?"
        expiring = "SELECT key, expires_ms FROM entries WHERE content = ? AND expires_ms IS NOT NULL"
        with self.database.reading("loading") as reading:
            content = [content_of(reading, self.owned)]
            return dict(reading.execute(values, content)), dict(reading.execute(expiring, content))

    def get(self, key: bytes) -> changes.Change | None:
        """One key."""
        question = "SELECT key, value, expires_ms FROM entries WHERE content = ? AND key = ?"
        with self.database.reading("reading") as reading:
            found = reading.execute(question, (content_of(reading, self.owned), key)).fetchone()
        return None if found is None else changes.Change._make(found)

    def count(self) -> int:
        """How many keys there are."""
        if not self.database.is_there():
            return 0
        with self.database.reading("counting") as reading:
            counted = "SELECT count(*) FROM entries WHERE content = ?"
            return int(reading.execute(counted, [content_of(reading, self.owned)]).fetchone()[0])

    def sorted_keys(self) -> Iterator[bytes]:
        """Every key, in the order of their bytes, a part at a time."""
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

    def due(self, watermark_ms: int) -> list[bytes]:
        """The keys that have expired."""
        question = "SELECT key FROM entries WHERE content = ? AND expires_ms <= ?"
        with self.database.reading("looking for what has expired in") as reading:
            return [row[0] for row in reading.execute(question, (content_of(reading, self.owned), watermark_ms))]

    def undo(self, epoch: int) -> tuple[int, dict[bytes, changes.Change]]:
        """What takes back this epoch and those after it, and the epoch at which the content then is.

        Raises `StateLostError` when an epoch is complete and cannot be taken back any more.
        """
        with self.database.reading("reading what undoes an epoch of") as reading:
            question = "SELECT epoch, changes FROM undo WHERE owned = ? AND epoch >= ? ORDER BY epoch DESC"
            found = reading.execute(question, (self.owned, epoch)).fetchall()
            rows = reading.execute("SELECT DISTINCT epoch FROM markers WHERE owned = ?", [self.owned]).fetchall()
        marked = [one for (one,) in rows]
        if missing := not_undoable(epoch, marked, [one for one, _ in found]):
            raise StateLostError(
                f"the state {self.name} is at epoch {max(marked)}, and epoch {missing[0]} cannot be "
                "taken back any more",
                epoch=epoch,
                sink=self.name,
                remedy="record a decision about the lost branch: `tpc resolve`.",
            )
        before: dict[bytes, changes.Change] = {}
        for _, undo in found:
            before.update((change.key, change) for change in changes.from_bytes(undo))
        return epoch_before(epoch, marked), before

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()


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
