"""A column made of Python values, or of a column of another Arrow type: value for value the same, or refused.

Arrow converts where the types alone say that it is exact; values are looked at one by one where they do not, and to
say which one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from tpc.coordinator.service.exact_values import NS_OF_UNIT, UnfitError
from tpc.coordinator.service.value_rules import column_rule
from tpc.support.arrow_errors import ARROW_REFUSALS

_RAISED = (*ARROW_REFUSALS, TypeError, ValueError, OverflowError, AttributeError)
_WHY_LIMIT = 400
_COARSE = {"s", "ms"}
"""Units to which Arrow cuts off, without a word, what a Python value has beyond them."""
_DAY_S = 86_400
_FIRST_S, _LAST_S = -62_135_596_800 + 2 * _DAY_S, 253_402_300_800 - 3 * _DAY_S
"""Between these, every zone's clock shows a year of 1 to 9999."""
_LONGEST_S = 999_999_998 * _DAY_S


class UnfitRowError(Exception):
    """The first value of a column that is refused: its place, and why."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why[:_WHY_LIMIT])  # Arrow's words may hold all of a value
        self.index = index


def column_of(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """The column of these values. Raises `UnfitRowError`."""
    rule = column_rule(field.type)
    if rule.is_plain(values):
        try:
            return _whole(field, _array(values, field.type))
        except _RAISED:
            pass  # looked at one by one, each is taken, or refused for a reason
    narrowed = _narrowed(field.type, values)
    if narrowed is not None:
        return _whole(field, narrowed)
    stored = []
    for index, value in enumerate(values):
        try:
            stored.append(rule.stored(value))
        except UnfitError as error:
            raise UnfitRowError(index, str(error)) from None
    try:
        return _whole(field, _array(stored, field.type))
    except _RAISED as error:
        raise _first_refused(field, stored, error) from error


def column_from(field: pa.Field, column: pa.Array) -> pa.Array:
    """The column of a batch as one of the declared type. Raises `UnfitRowError`."""
    _require_valid(column)
    made = _same(column, field.type)
    return column_of(field, list(column)) if made is None else _whole(field, made)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if not types.is_dictionary(kind):
        return pa.array(values, kind)
    return pa.array(values, kind.value_type).dictionary_encode().cast(kind)


def _narrowed(kind: pa.DataType, values: Sequence[Any]) -> pa.Array | None:
    """By way of a finer type, to which Arrow converts exactly; None where that or the second step is not exact."""
    finer: pa.DataType | None = None
    if types.is_float32(kind):
        finer = pa.float64()
    elif types.is_timestamp(kind) and kind.unit in _COARSE:
        finer = pa.timestamp("us", kind.tz)
    elif types.is_time32(kind):
        finer = pa.time64("us")
    elif types.is_duration(kind) and kind.unit in _COARSE:
        finer = pa.duration("us")
    if finer is None or not column_rule(finer).is_plain(values):
        return None
    try:
        return _same(pa.array(values, finer), kind)
    except _RAISED:
        return None


def _first_refused(field: pa.Field, stored: Sequence[Any], error: Exception) -> UnfitRowError:
    for index, value in enumerate(stored):
        try:
            _array([value], field.type)
        except _RAISED as refused:
            return UnfitRowError(index, str(refused))
    return UnfitRowError(0, f"the column as a whole is refused: {error}")


def _whole(field: pa.Field, column: pa.Array) -> pa.Array:
    """The column, if NULL stands only where it may, and every time is one that Python has."""
    if column.null_count and not field.nullable:
        raise UnfitRowError(pc.index(column.is_null(), True).as_py(), "None in a column that excludes it")
    if not _is_in_range(column):
        for index in range(len(column)):
            try:
                column[index].as_py()
            except (ValueError, OverflowError) as error:
                raise UnfitRowError(index, f"a time outside of the years 1 to 9999: {error}") from None
    return column


def _is_in_range(column: pa.Array) -> bool:
    """False where a time may be none that Python has, in this column or inside its values."""
    kind, parts = column.type, []
    if types.is_dictionary(kind):
        parts = [column.dictionary]
    elif types.is_map(kind):
        parts = [column.keys, column.items]
    elif types.is_struct(kind):
        parts = column.flatten()
    elif types.is_nested(kind):
        parts = [column.flatten()]
    if types.is_timestamp(kind):
        per_s = 10**9 // NS_OF_UNIT[kind.unit]
        return _is_between(column, _FIRST_S * per_s, _LAST_S * per_s)
    if types.is_date(kind):
        per_day = 1 if types.is_date32(kind) else _DAY_S * 1_000
        return _is_between(column, _FIRST_S // _DAY_S * per_day, _LAST_S // _DAY_S * per_day)
    if types.is_duration(kind):
        longest = _LONGEST_S * (10**9 // NS_OF_UNIT[kind.unit])
        return _is_between(column, -longest, longest)
    return all(map(_is_in_range, parts))


def _is_between(column: pa.Array, first: int, last: int) -> bool:
    found = pc.min_max(column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())).as_py()
    return found["min"] is None or (first <= found["min"] and found["max"] <= last)


def _require_valid(column: pa.Array) -> None:
    """No text that is not UTF-8, no time beyond midnight, no decimal with more digits than its type has."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        for index in range(len(column)):
            try:
                column.slice(index, 1).validate(full=True)
            except pa.ArrowInvalid as refused:
                raise UnfitRowError(index, str(refused)) from None
        raise UnfitRowError(0, str(error)) from None


def _same(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The same values as another type, as Arrow makes them; None where that is not known to be exact."""
    made: pa.Array | None = None
    if types.is_nested(kind):
        # Equal types may differ in what they call an item; a map may hold a key twice.
        made = column if str(column.type) == str(kind) and not _needs_looking(kind) else None
    elif column.type == kind:
        made = column
    elif types.is_null(column.type):
        made = pa.nulls(len(column), kind)
    elif types.is_dictionary(column.type):
        made = _same(column.dictionary_decode(), kind)
    elif types.is_dictionary(kind):
        decoded = _same(column, kind.value_type)
        made = None if decoded is None else decoded.dictionary_encode().cast(kind)
    elif any(of(column.type) and of(kind) for of in _FAMILIES) or _is_number_to_float(column.type, kind):
        made = _cast(column, kind)
    return made


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        made = column.cast(kind)
    except ARROW_REFUSALS:
        return None
    return made if not types.is_floating(kind) or _is_equal(column, made) else None


def _needs_looking(kind: pa.DataType) -> bool:
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return bool(types.is_map(kind)) or any(not field.nullable or _needs_looking(field.type) for field in fields)


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    plain = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(plain or types.is_fixed_size_binary(kind))


def _is_instant(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) and kind.tz is not None)


def _is_wall_clock(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) and kind.tz is None)


_FAMILIES: tuple[Callable[[pa.DataType], bool], ...] = (
    types.is_integer,
    types.is_floating,
    types.is_decimal,
    _is_text,
    _is_bytes,
    _is_instant,
    _is_wall_clock,
    types.is_date,
    types.is_time,
    types.is_duration,
)
"""Within each, a safe cast of Arrow's changes no value, or raises; floats are compared afterwards."""


def _is_number_to_float(given: pa.DataType, kind: pa.DataType) -> bool:
    return bool(types.is_integer(given) and (types.is_float32(kind) or types.is_float64(kind)))


def _is_equal(column: pa.Array, made: pa.Array) -> bool:
    """NaN is equal to NaN. Of whole numbers a safe cast has looked already."""
    if types.is_integer(column.type):
        return True
    back = made.cast(column.type)
    there, again = (each.fill_null(0).to_numpy(zero_copy_only=False) for each in (column, back))
    return bool(np.array_equal(there, again, equal_nan=True))
