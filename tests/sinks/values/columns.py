"""Columns of every Arrow type with values that sinks have changed; and the raw value, which no reader shares.

Arrays are made from integers and bytes, not from Python's dates and texts: Spark hands over text that is no UTF-8, and
dates of the year 10000.
"""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as some
from pyarrow import types

DAY_US = 86_400_000_000
ZONES = ("UTC", "Europe/Paris", "Asia/Kolkata", "America/New_York", "Europe/Amsterdam", "+05:30", "PST")

FLAT: tuple[pa.DataType, ...] = (
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64(), pa.null()),
    *(pa.decimal128(38, 10), pa.decimal128(5, 2), pa.decimal128(5, -2), pa.decimal256(60, 20)),
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary(3), pa.binary_view()),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp("us", zone) for zone in ZONES),
    *(pa.timestamp("ms", "Europe/Paris"), pa.timestamp("s", "UTC"), pa.timestamp("ns", "Asia/Kolkata")),
    *(pa.duration("s"), pa.duration("us"), pa.month_day_nano_interval()),
)
NESTED: tuple[pa.DataType, ...] = (
    *(pa.list_(pa.int64()), pa.list_(pa.string()), pa.large_list(pa.float64()), pa.list_(pa.timestamp("us", "UTC"))),
    *(pa.list_(pa.int32(), 2), pa.list_(pa.list_(pa.date32()))),
    pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.decimal128(38, 10))]),
    pa.struct([("a", pa.int64()), ("a", pa.int64())]),
    *(pa.map_(pa.string(), pa.float64()), pa.map_(pa.int64(), pa.int64()), pa.map_(pa.string(), pa.list_(pa.string()))),
    *(pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int8(), pa.duration("us"))),
)
TYPES = FLAT + NESTED

TEXTS = (
    b"",
    b" ",
    b"abc   ",
    b"NULL",
    b"a\xff",
    b"\xed\xa0\x80",
    b"\x00",
    b'a\r\n"b",\\',
    "ä漢🐍".encode(),
    b"x" * 300,
)
FLOATS = (0.0, -0.0, 0.1, 1.5, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, 65504.0)


def arrays(kind: pa.DataType) -> some.SearchStrategy[pa.Array]:
    """Columns of up to four values, NULLs among them."""
    return some.lists(some.none() | values(kind), min_size=1, max_size=4).map(lambda raws: array(kind, raws))


def values(kind: pa.DataType) -> some.SearchStrategy[Any]:  # noqa: PLR0911  one for each kind
    """Raw values; see `array`."""
    if types.is_null(kind):
        return some.none()
    if types.is_boolean(kind):
        return some.booleans()
    if types.is_floating(kind):
        return some.sampled_from(FLOATS) | some.floats(width=kind.bit_width)
    if types.is_decimal(kind):
        most = 10**kind.precision - 1
        return some.sampled_from((0, 1, -1, most, -most)) | some.integers(-most, most)
    if _is_text(kind):
        return some.sampled_from(TEXTS) | some.text().map(str.encode)
    if _is_bytes(kind):
        size = kind.byte_width if types.is_fixed_size_binary(kind) else None
        return some.binary(min_size=size or 0, max_size=20 if size is None else size)
    if types.is_dictionary(kind):
        return values(kind.value_type)
    if types.is_interval(kind):
        return some.just((1, 2, 3))
    if types.is_map(kind):
        pairs = some.tuples(values(kind.key_type), some.none() | values(kind.item_type))
        return some.lists(pairs, max_size=3)
    if types.is_struct(kind):
        return some.tuples(*(some.none() | values(field.type) for field in kind))
    if types.is_fixed_size_list(kind):
        item = some.none() | values(kind.value_type)
        return some.lists(item, min_size=kind.list_size, max_size=kind.list_size)
    if types.is_nested(kind):
        return some.lists(some.none() | values(kind.value_type), max_size=3)
    return _integers(kind)


def _integers(kind: pa.DataType) -> some.SearchStrategy[int]:
    if types.is_integer(kind):
        low = 0 if types.is_unsigned_integer(kind) else -(2 ** (kind.bit_width - 1))
        high = 2 ** (kind.bit_width - types.is_signed_integer(kind)) - 1
        return some.sampled_from((low, high, 0, min(high, 2**53 + 1))) | some.integers(low, high)
    if types.is_date32(kind):
        return some.sampled_from((0, -719_162, -719_163, 2_932_896, 2_932_897, 2**31 - 1)) | some.integers(
            -(10**6), 10**6
        )
    if types.is_date64(kind):
        return some.sampled_from((0, 86_400_000, 1, -86_400_000 * 800_000))
    if types.is_time(kind):
        per_day = DAY_US * 1000 // _NS[kind.unit]
        return some.sampled_from((0, per_day - 1, per_day, -1)) | some.integers(0, per_day - 1)
    per_us = 1000 / _NS[kind.unit]  # timestamps and durations
    odd = (
        -2_208_988_800_000_000,
        0,
        1,
        123_456,
        -62_135_596_800_000_000,
        253_402_300_799_999_999,
        253_402_300_800_000_000,
    )
    scaled = [int(us * per_us) for us in odd if abs(us * per_us) < 2**63]
    return some.sampled_from((*scaled, 2**62)) | some.integers(int(-3e15 * per_us), int(3e15 * per_us))


_NS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


def array(kind: pa.DataType, raws: list[Any]) -> pa.Array:  # noqa: PLR0911  one for each kind
    """A column from raw values: integers for all that counts, unscaled for decimals; bytes for text; pairs for maps."""
    if types.is_decimal(kind):
        scaled = [None if raw is None else Decimal(raw).scaleb(-kind.scale, Context(prec=90)) for raw in raws]
        return pa.array(scaled, kind)
    if types.is_floating(kind):
        with np.errstate(over="ignore"):
            width = f"f{kind.bit_width // 8}"
            return pa.array([None if raw is None else np.array(raw, width)[()] for raw in raws], kind)
    if _is_text(kind):
        return _text(kind, raws)
    if types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(
            pa.array([None if raw is None else place for place, raw in enumerate(raws)], kind.index_type),
            array(kind.value_type, raws),
        )
    if types.is_interval(kind):
        return pa.array([None if raw is None else pa.MonthDayNano(raw) for raw in raws], kind)
    if types.is_struct(kind):
        rows = [raw or (None,) * kind.num_fields for raw in raws]
        children = [array(field.type, [row[place] for row in rows]) for place, field in enumerate(kind)]
        absent = pa.array([raw is None for raw in raws], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=absent)
    if types.is_nested(kind):
        return _list(kind, raws)
    if types.is_temporal(kind):
        count = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(raws, count).view(kind)
    return pa.array(raws, kind)


def _text(kind: pa.DataType, raws: list[Any]) -> pa.Array:
    """Text as it comes from another process: nobody has looked whether it is UTF-8."""
    if types.is_string_view(kind):
        return pa.array(raws, pa.binary_view()).view(kind)
    of_bytes = pa.array(raws, pa.binary() if types.is_string(kind) else pa.large_binary())
    return pa.Array.from_buffers(kind, len(raws), of_bytes.buffers(), of_bytes.null_count)


def _list(kind: pa.DataType, raws: list[Any]) -> pa.Array:
    size = kind.list_size if types.is_fixed_size_list(kind) else 0
    rows = [([None] * size if raw is None else raw) for raw in raws]
    flat: list[Any] = [item for row in rows for item in row]
    absent = pa.array([raw is None for raw in raws], pa.bool_())
    if types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(array(kind.value_type, flat), type=kind, mask=absent)
    ends = np.cumsum([0, *(len(row) for row in rows)])
    if types.is_map(kind):
        offsets = pa.array(
            [None if raw is None else end for raw, end in zip(raws, ends, strict=False)] + [ends[-1]], pa.int32()
        )
        keys, items = (
            array(t, [pair[place] for pair in flat]) for place, t in enumerate((kind.key_type, kind.item_type))
        )
        return pa.MapArray.from_arrays(offsets, keys, items, kind)
    made = pa.LargeListArray if types.is_large_list(kind) else pa.ListArray
    return made.from_arrays(
        pa.array(ends, pa.int64() if made is pa.LargeListArray else pa.int32()),
        array(kind.value_type, flat),
        mask=absent,
    )


def raw_values(column: pa.Array) -> list[Any]:  # noqa: PLR0911  one for each kind
    """What a column holds, spelled so that values are equal exactly when they are the same: floats by their bits."""
    kind = column.type
    if types.is_dictionary(kind):
        return raw_values(column.dictionary_decode())
    if types.is_floating(kind):
        return [None if value is None else float_bits(float(value)) for value in column.to_pylist()]
    if _is_text(kind) or _is_bytes(kind):
        return column.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]
    if types.is_struct(kind):
        children = [raw_values(child) for child in column.flatten()]
        rows = list(zip(*children, strict=True)) if children else [()] * len(column)
        return [row if there else None for row, there in zip(rows, column.is_valid().to_pylist(), strict=True)]
    if types.is_map(kind):
        return [
            None
            if not one.is_valid
            else list(zip(raw_values(one.values.field(0)), raw_values(one.values.field(1)), strict=True))
            for one in column
        ]
    if types.is_nested(kind):
        return [None if not one.is_valid else raw_values(one.values) for one in column]
    if types.is_temporal(kind) and not types.is_interval(kind):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def float_bits(value: float) -> str:
    """-0.0 is not 0.0, and NaN is NaN."""
    return "NaN" if math.isnan(value) else struct.pack(">d", value).hex()


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary, types.is_binary_view)
    return any(test(kind) for test in tests)
