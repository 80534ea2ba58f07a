"""Values of the types that Spark has, extremes and NULLs, and one spelling of what different readers make of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import pyarrow

SPARK_TYPES: Sequence[pyarrow.DataType] = (
    pyarrow.bool_(),
    pyarrow.int8(),
    pyarrow.int16(),
    pyarrow.int32(),
    pyarrow.int64(),
    pyarrow.float32(),
    pyarrow.float64(),
    pyarrow.decimal128(38, 10),
    pyarrow.string(),
    pyarrow.binary(),
    pyarrow.date32(),
    pyarrow.timestamp("us"),
    pyarrow.timestamp("us", "UTC"),
    pyarrow.list_(pyarrow.int64()),
    pyarrow.struct([("a", pyarrow.int64()), ("b", pyarrow.string())]),
)
"""The types of Spark's columns, as its tasks hand them over."""

TEXTS = ("", " ", "NULL", "\\N", "None", "a\tb\nc\r\nd", "'\"\\,;%_", "äöü 漢字 🐍", "\u202e", "x" * 10_000)
INSTANTS = (
    datetime(1970, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(2024, 2, 29, 12, 0, 0, 1),
    datetime(1900, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999_999),
)


def values_of(type_: pyarrow.DataType) -> list[Any]:
    """Values of a type that have been taken for others: the smallest, the largest, the empty, NULL."""
    return [*_values(type_), None]


def _values(type_: pyarrow.DataType) -> list[Any]:
    kinds = pyarrow.types
    if kinds.is_boolean(type_):
        found: list[Any] = [True, False]
    elif kinds.is_integer(type_):
        bits = type_.bit_width - kinds.is_signed_integer(type_)
        low = -(2**bits) if kinds.is_signed_integer(type_) else 0
        found = [0, 1, low, 2**bits - 1]
    elif kinds.is_floating(type_):
        # Each is a float32 as well; 2**-149 is the smallest of them.
        found = [0.0, -0.0, 0.1 if type_.bit_width == 64 else 0.5, 2.0**-149, -(2.0**127), 2.0**24 + 2]
        found += [math.inf, -math.inf, math.nan]
    elif kinds.is_decimal(type_):
        digits, step = 10**type_.precision - 1, Decimal(1).scaleb(-type_.scale)
        largest = Decimal(digits).scaleb(-type_.scale, context=_wide())
        found = [Decimal(0), step, -step, largest, largest.copy_negate()]
    elif kinds.is_string(type_) or kinds.is_large_string(type_):
        found = list(TEXTS)
    elif kinds.is_binary(type_) or kinds.is_large_binary(type_):
        found = [b"", b"\x00", b"\xff\xfe", bytes(range(256))]
    elif kinds.is_date(type_):
        found = [instant.date() for instant in INSTANTS]
    elif kinds.is_timestamp(type_):
        zone = timezone.utc if type_.tz else None
        step_us = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[type_.unit]
        found = [
            instant.replace(microsecond=instant.microsecond // step_us * step_us, tzinfo=zone) for instant in INSTANTS
        ]
        found = found[:3] if type_.unit == "ns" else found
    elif kinds.is_list(type_):
        found = [[], [None], _values(type_.value_type)]
    elif kinds.is_struct(type_):
        fields = list(type_)
        full = {field.name: _values(field.type)[0] for field in fields}
        found = [full, dict.fromkeys(full)]
    else:
        raise ValueError(f"the kit has no values of the type {type_}: take it out of `types`")
    return found


def _wide() -> Context:
    """Decimals of 38 digits are not rounded to the 28 of Python's default."""
    return Context(prec=80)


def plain(value: Any) -> Any:
    """One spelling of a value that readers may spell in several ways: decimals, zones, memoryviews, -0.0 and NaN."""
    if isinstance(value, Mapping):
        return sorted((str(key), repr(plain(each))) for key, each in value.items())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    for kind, spelled in SPELLED.items():
        if isinstance(value, kind):
            return spelled(value)
    return value


def _instant(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    # As a span: near the year 10000 another zone has no date for it.
    return f"{(value - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)} us"


SPELLED: Mapping[Any, Callable[[Any], Any]] = {
    float: lambda value: "nan" if math.isnan(value) else repr(value + 0.0),
    Decimal: lambda value: f"decimal {value.normalize(_wide()):f}" if value else "decimal 0",
    datetime: _instant,
    date: date.isoformat,
    (bytes, bytearray, memoryview): bytes,
}
