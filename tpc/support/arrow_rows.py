"""Describes one value or one row of an Arrow batch for an error. Nothing here raises, since an error is being built.

`to_pylist` raises for text that is not UTF-8, for dates beyond Python's years and for time zones unknown to Python. A
row that an error is about is the most likely one to hold such a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tpc.sink import describe_row

if TYPE_CHECKING:
    import pyarrow


def described(batch: pyarrow.RecordBatch, row: int, columns: Sequence[str]) -> str:
    """The values of `columns` in one row, as text."""
    return describe_row({name: value_at(batch, name, row) for name in columns}, columns)


def value_at(batch: pyarrow.RecordBatch, column: str, row: int) -> Any:
    """One value as a Python value, else as Arrow's text (the year 10000), else as its bytes (invalid UTF-8)."""
    readings: tuple[Callable[[Any], Any], ...] = (_as_python, _as_text, _as_bytes)
    for reading in readings:
        try:
            return reading(batch.column(column).slice(row, 1))
        except Exception:  # noqa: BLE001  the next way of reading demands less of the value
            continue
    return "<a value that cannot be shown>"


def _as_python(value: pyarrow.Array) -> Any:
    return value[0].as_py()


def _as_text(value: pyarrow.Array) -> Any:
    from pyarrow import types

    if types.is_nested(value.type):
        raise ValueError("nested values have no text in Arrow")
    if types.is_timestamp(value.type) and value.type.tz is not None:
        import pyarrow as pa

        value = value.cast(pa.timestamp(value.type.unit, "UTC"))
    return value.cast("string")[0].as_py()


def _as_bytes(value: pyarrow.Array) -> Any:
    return value.cast("binary")[0].as_py()
