"""What the store of a loop's state holds, read as the SQLite file and the JSON that it is, without the library."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ANSWER_TIMEOUT_S = 5.0
_VERSION = b"\x01"
_PREPARED = "SELECT handle FROM deltas WHERE owned LIKE ? AND applied = 0"


@dataclass(frozen=True)
class StoreContent:
    """`entries`: value and event time of expiry in ms (None: never) by key, for keys and values that JSON has.

    `prepared` are the handles of deltas that are not applied, `undoable` the epochs that can still be taken back,
    `applied` the newest epoch that is, -1 if none.
    """

    entries: dict[Any, tuple[Any, int | None]] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    undoable: tuple[int, ...] = ()
    applied: int = -1

    @property
    def values(self) -> dict[Any, Any]:
        """Without their expiry."""
        return {key: value for key, (value, _) in self.entries.items()}


def count_keys(path: Path, pipeline: str) -> int:
    """How many keys the file at `path` holds for a pipeline of this name, whatever they are. Raises `sqlite3.Error`."""
    with closing(_opened(path)) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM held WHERE owned LIKE ?", [f"tpc~{pipeline}~%"])
        return int(count)


def read_store(path: Path, pipeline: str) -> StoreContent:
    """What stands in the file at `path` for a pipeline of this name, at one moment. Raises `sqlite3.Error`."""
    with closing(_opened(path)) as connection:
        connection.execute("BEGIN")
        mine = f"tpc~{pipeline}~%"
        entries = connection.execute("SELECT key, value, expires_ms FROM held WHERE owned LIKE ?", [mine])
        kept = "SELECT DISTINCT epoch FROM deltas WHERE owned LIKE ? AND applied > 0 ORDER BY epoch"
        return StoreContent(
            {plain(key): (plain(value), expires_ms) for key, value, expires_ms in entries},
            tuple(row[0] for row in connection.execute(_PREPARED, [mine])),
            tuple(row[0] for row in connection.execute(kept, [mine])),
            max([-1, *(row[0] for row in connection.execute("SELECT epoch FROM markers WHERE owned LIKE ?", [mine]))]),
        )


def _opened(path: Path) -> sqlite3.Connection:
    place = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(place, uri=True, timeout=ANSWER_TIMEOUT_S, isolation_level=None)


def plain(data: bytes) -> Any:
    """A key or a value. Raises `ValueError` for what is not written as JSON of this version."""
    if data[:1] != _VERSION:
        raise ValueError(f"a state holds bytes of another version: {data[:1]!r}")
    return json.loads(data[1:])
