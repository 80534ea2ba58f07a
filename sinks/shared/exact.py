"""Exact or refused: checks values before a sink encodes them, and finds the value that an encoder refused.

Encoders raise `ValueError` (as Arrow and Unicode do) or `OverflowError` for a batch with a value that has no exact
form. The search for that value runs only then, so that it costs nothing for other batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tpc.errors import DataError
from tpc.handles import Handle
from tpc.support.arrow_rows import described

REFUSALS = (ValueError, OverflowError)
"""What an encoder raises for a value without an exact form."""
KEY_COLUMNS = 3
"""How many columns are shown to identify a row without a key."""

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""
_UNITS_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}

Encode = Callable[[pa.RecordBatch], object]


def require_valid(batch: pa.RecordBatch) -> None:
    """Raise `ValueError` for a value that is invalid for its own type.

    For instance text that is not UTF-8, which Spark casts from binary without a check, or a time of day after 24:00.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        why = "text that is not UTF-8" if "UTF8" in str(error) else f"a value that its type does not have: {error}"
        raise ValueError(why) from error


def require_four_digit_years(column: Any) -> None:
    """Raise `ValueError` for a date or timestamp outside the years 0001 to 9999: ISO 8601 has no form for it."""
    kind = column.type
    if types.is_date(kind):
        numbers, low, high = pc.cast(pc.cast(column, pa.date32()), pa.int32()), _FIRST_DAY, _LAST_DAY
    elif (per_day := _UNITS_PER_DAY.get(kind.unit)) is not None:
        numbers, low, high = pc.cast(column, pa.int64()), _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1
    else:
        return  # nanoseconds are all within the years 1677 to 2262
    found = pc.min_max(numbers).as_py()
    if found["min"] is not None and (found["min"] < low or found["max"] > high):
        raise ValueError("a date outside the years 0001 to 9999")


def refused_value(
    batch: pa.RecordBatch,
    encode: Encode,
    error: Exception,
    *,
    handle: Handle,
    key: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> DataError:
    """The `DataError` for the first value in `batch` that `encode` refuses; `error` is what it raised for the batch.

    `encode` must have no side effects; it gets only `columns` (None: all). `key` are the columns that identify a row;
    without them the first columns do. Raises `error` if `encode` refuses no single value.
    """
    encoded = batch if columns is None else batch.select(list(columns))
    if _refusal(encoded, encode) is None:
        raise error
    column = next((name for name in encoded.schema.names if _refusal(encoded.select([name]), encode)), None)
    part = encoded if column is None else encoded.select([column])
    row = _first_row(part, encode)
    why = str(_refusal(part.slice(row, 1), encode) or error)
    shown = described(batch, row, [name for name in key if name in batch.schema.names] or _first_columns(batch, column))
    where = f"column {column!r} of the row" if column is not None else "the row"
    return DataError(
        f"{where} {shown} cannot be written as it is: {why}",
        column=column,
        key=shown,
        pipeline=str(handle.pipeline),
        epoch=handle.epoch,
        sink=handle.sink,
    )


def _first_columns(batch: pa.RecordBatch, column: str | None) -> list[str]:
    names = batch.schema.names[:KEY_COLUMNS]
    return names if column is None or column in names else [*names, column]


def _first_row(batch: pa.RecordBatch, encode: Encode) -> int:
    """The index of the first refused row, by bisection: the shortest refused prefix of the batch ends with it."""
    low, high = 1, batch.num_rows
    while low < high:
        middle = (low + high) // 2
        if _refusal(batch.slice(0, middle), encode):
            high = middle
        else:
            low = middle + 1
    return low - 1


def _refusal(batch: pa.RecordBatch, encode: Encode) -> Exception | None:
    try:
        encode(batch)
    except REFUSALS as error:
        return error
    return None
