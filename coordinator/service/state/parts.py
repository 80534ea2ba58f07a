"""The changes of a branch as they lie in a store: rows in the order of their keys, many in one BLOB, as Arrow has them.

A row of SQLite for each key would cost more than all else that an epoch does with it. Of a delta that is being
compacted what stands above its `upto` is left; its parts go as soon as nothing in them is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow
import pyarrow.compute as pc
from pyarrow import ipc

from tpc.coordinator.service.state.changes import SCHEMA, Change
from tpc.errors import DataError
from tpc.support.arrow_errors import ARROW_REFUSALS

AT_ONCE = 500
"""Rows of a part, at most."""
_LARGE_BYTES = 16 << 20
"""SQLite takes 1,000,000,000 bytes in one value."""


class Part(NamedTuple):
    """A part of a delta: its number, what is left of its rows, and their last key, None where none is."""

    delta: int
    number: int
    rows: pyarrow.RecordBatch
    end: bytes | None


def in_order(batches: Sequence[pyarrow.RecordBatch], sink: str) -> pyarrow.Table:
    """The rows of `batches` by their keys. Raises `DataError`, of `sink`, when one stands there twice."""
    table = pyarrow.Table.from_batches(batches)
    if not _ascends(table["key"]):
        table = table.sort_by("key")
        if not _ascends(table["key"]):
            raise DataError("a key of a state was changed twice in an epoch", sink=sink, column="key")
    return table


def _ascends(keys: pyarrow.ChunkedArray) -> bool:
    return len(keys) < 2 or bool(pc.all(pc.less(keys[:-1], keys[1:])).as_py())


def newest_of(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """One row for each key, that of the last table which has it, by their keys. Each table is in order."""
    if len(tables) == 1:
        return tables[0]
    ages = [pyarrow.repeat(-number, table.num_rows) for number, table in enumerate(tables)]
    aged = [table.append_column("age", age) for table, age in zip(tables, ages, strict=True)]
    rows = pyarrow.concat_tables(aged).sort_by([("key", "ascending"), ("age", "ascending")]).drop_columns("age")
    if not rows.num_rows:
        return rows
    keys = rows["key"]
    is_first = pyarrow.chunked_array([pyarrow.array([True]), *pc.not_equal(keys[1:], keys[:-1]).chunks])
    return rows.filter(is_first)


def put_delta(connection: sqlite3.Connection, entry: tuple[str, str, int], rows: pyarrow.Table, applied: int) -> None:
    """A delta of these rows, which are in order; `entry` is its handle, whose it is, and its epoch."""
    put = "INSERT INTO deltas (handle, owned, epoch, rows, applied) VALUES (?, ?, ?, ?, ?)"
    delta = connection.execute(put, (*entry, rows.num_rows, applied)).lastrowid
    connection.execute("DELETE FROM changes WHERE delta = ?", [delta])  # of one that somebody has removed
    for batch in rows.to_batches(max_chunksize=AT_ONCE):
        for part in _small(batch):
            data = memoryview(part.serialize())
            connection.execute("INSERT INTO changes (delta, data) VALUES (?, ?)", (delta, data))


def _small(rows: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    """The rows in halves, until each is of a size that SQLite takes; a row that alone is larger it may refuse."""
    if rows.num_rows < 2 or rows.nbytes <= _LARGE_BYTES:
        yield rows
    else:
        half = rows.num_rows // 2
        yield from _small(rows.slice(0, half))
        yield from _small(rows.slice(half))


def drop_delta(connection: sqlite3.Connection, delta: int) -> None:
    """Remove it, with all its rows."""
    for table in ("changes", "deltas"):
        connection.execute(f"DELETE FROM {table} WHERE delta = ?", [delta])


def drop_part(connection: sqlite3.Connection, part: Part) -> None:
    """Remove it."""
    connection.execute("DELETE FROM changes WHERE part = ? AND delta = ?", (part.number, part.delta))


def size_of(connection: sqlite3.Connection, delta: int) -> int:
    """Bytes of what is left of a delta, at most."""
    return int(connection.execute("SELECT total(length(data)) FROM changes WHERE delta = ?", [delta]).fetchone()[0])


def parts_of(connection: sqlite3.Connection, delta: int, upto: bytes | None) -> Iterator[Part]:
    """What is left of a delta, in the order of its keys."""
    for number, data in connection.execute("SELECT part, data FROM changes WHERE delta = ? ORDER BY part", [delta]):
        rows = _read(data)
        if upto is not None:
            rows = rows.filter(pc.greater(rows["key"], upto))
        yield Part(delta, number, rows, rows["key"][-1].as_py() if rows.num_rows else None)


def _read(data: bytes) -> pyarrow.RecordBatch:
    """Raises as SQLite does for a damaged file: it does not look whether a BLOB is what was written."""
    try:
        batch = ipc.read_record_batch(pyarrow.py_buffer(data), SCHEMA)
        batch.validate(full=True)
    except (*ARROW_REFUSALS, OSError, EOFError, TypeError) as error:
        raise sqlite3.DatabaseError(f"changes are malformed: {error}") from error
    return batch


def changes_of(rows: pyarrow.RecordBatch | pyarrow.Table) -> list[Change]:
    """Rows as Python has them."""
    return list(map(Change._make, zip(*(column.to_pylist() for column in rows.columns), strict=True)))
