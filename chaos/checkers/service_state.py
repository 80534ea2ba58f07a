"""What the store of a service's state holds, read as the SQLite, Arrow and JSON that it is, without the library."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

ANSWER_TIMEOUT_S = 5.0
_VERSION = b"\x01"
_WHOLE = b"\x02object"
"""The only key of a store that holds an object."""
_CHANGES = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("expires_ms", pa.int64())])
"""A value that is NULL: the key is gone."""
_PREPARED = "SELECT handle FROM deltas WHERE owned LIKE ? AND applied = 0"

Row = tuple[bytes, bytes, int | None]
"""Key, value, event time of expiry in ms."""


@dataclass(frozen=True)
class StoreContent:
    """`entries`: value and event time of expiry in ms (None: never) by key, for keys and values that JSON has.

    `prepared` are the handles of deltas that are not applied, `undoable` the epochs that can still be taken back,
    `applied` the newest epoch that is, -1 if none. `whole` are the bytes of an object that is kept whole, if it is one.
    """

    entries: dict[Any, tuple[Any, int | None]] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    undoable: tuple[int, ...] = ()
    applied: int = -1
    whole: bytes | None = None

    @property
    def values(self) -> dict[Any, Any]:
        """Without their expiry."""
        return {key: value for key, (value, _) in self.entries.items()}


def count_keys(path: Path, pipeline: str) -> int:
    """How many keys the file at `path` holds for a pipeline of this name, whatever they are. Raises `sqlite3.Error`."""
    with closing(_opened(path)) as connection:
        return len(_held(connection, f"tpc~{pipeline}~%"))


def read_store(path: Path, pipeline: str) -> StoreContent:
    """What is in the file at `path` for a pipeline of this name, at one moment. Raises `sqlite3.Error`."""
    with closing(_opened(path)) as connection:
        mine = f"tpc~{pipeline}~%"
        kept = "SELECT DISTINCT epoch FROM deltas WHERE owned LIKE ? AND applied > 0 ORDER BY epoch"
        held = {key: (value, expires_ms) for key, value, expires_ms in _held(connection, mine)}
        whole, _ = held.pop(_WHOLE, (None, None))
        return StoreContent(
            {plain(key): (plain(value), expires_ms) for key, (value, expires_ms) in held.items()},
            tuple(row[0] for row in connection.execute(_PREPARED, [mine])),
            tuple(row[0] for row in connection.execute(kept, [mine])),
            max([-1, *(row[0] for row in connection.execute("SELECT epoch FROM markers WHERE owned LIKE ?", [mine]))]),
            whole,
        )


def held_rows(path: Path) -> list[Row]:
    """Key, value and expiry of all that the file holds, whoever's it is. Raises `sqlite3.Error`."""
    with closing(_opened(path)) as connection:
        return _held(connection, "%")


def _held(connection: sqlite3.Connection, owned: str) -> list[Row]:
    """The entries of each content, and over them the changes that are applied and not compacted, the oldest first."""
    contents: dict[str, dict[bytes, Row]] = {}
    entries = "SELECT owned, key, value, expires_ms FROM entries JOIN contents USING (content) WHERE owned LIKE ?"
    for of, *row in connection.execute(entries, [owned]):
        contents.setdefault(of, {})[row[0]] = (row[0], row[1], row[2])
    changes = "SELECT owned, upto, data FROM deltas JOIN changes USING (delta) WHERE owned LIKE ?"
    for of, upto, data in connection.execute(f"{changes} AND applied > 0 ORDER BY epoch, handle, part", [owned]):
        content = contents.setdefault(of, {})
        for change in ipc.read_record_batch(pa.py_buffer(data), _CHANGES).to_pylist():
            if upto is not None and change["key"] <= upto:
                continue
            content.pop(change["key"], None)
            if change["value"] is not None:
                content[change["key"]] = (change["key"], change["value"], change["expires_ms"])
    return [row for content in contents.values() for row in content.values()]


def _opened(path: Path) -> sqlite3.Connection:
    """All that is asked of it shows one moment."""
    place = f"{path.absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(place, uri=True, timeout=ANSWER_TIMEOUT_S, isolation_level=None)
    connection.execute("BEGIN")
    return connection


def plain(data: bytes) -> Any:
    """A key or a value. Raises `ValueError` for what is not written as JSON of this version."""
    if data[:1] != _VERSION:
        raise ValueError(f"a state holds bytes of another version: {data[:1]!r}")
    return json.loads(data[1:])
