"""Types that columns may have, values that fit them and values that may not, and when a value has arrived.

Equality is said here a second time, without the code that is tested: by the table in `docs/reference/values.md`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from hypothesis import strategies as some
from pyarrow import types

UTC = timezone.utc
ZONES = [
    UTC,
    timezone(timedelta(hours=14)),
    timezone(-timedelta(hours=14)),
    timezone(timedelta(hours=1, seconds=1, microseconds=5)),
    ZoneInfo("Europe/Berlin"),
    ZoneInfo("Europe/Amsterdam"),
]
UNITS = ("s", "ms", "us", "ns")
PER_S = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INTS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
PLAIN = [
    pa.bool_(),
    *INTS,
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(5, 1),
    pa.decimal128(38, 10),
    pa.decimal128(4, -2),
    pa.decimal256(60, 20),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.large_binary(),
    pa.binary(3),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.duration(unit) for unit in UNITS),
    *(pa.timestamp(unit) for unit in UNITS),
    *(pa.timestamp(unit, "UTC") for unit in UNITS),
    pa.timestamp("us", "Europe/Berlin"),
]
DICTIONARIES = [pa.dictionary(pa.int32(), kind) for kind in (pa.string(), pa.int64(), pa.binary())]
KEYS = [pa.string(), pa.int32(), pa.date32(), pa.binary()]


def _nested(parts: some.SearchStrategy[pa.DataType]) -> some.SearchStrategy[pa.DataType]:
    lists = some.builds(
        lambda kind, nullable: pa.list_(pa.field("item", kind, nullable=nullable)), parts, some.booleans()
    )
    structs = some.lists(parts, min_size=1, max_size=3).map(
        lambda kinds: pa.struct([(name, kind) for name, kind in zip("abc", kinds, strict=False)])
    )
    maps = some.builds(pa.map_, some.sampled_from(KEYS), parts)
    return lists | structs | maps | parts.map(pa.large_list) | parts.map(lambda kind: pa.list_(kind, 2))


kinds = some.sampled_from(PLAIN + DICTIONARIES) | some.recursive(some.sampled_from(PLAIN), _nested, max_leaves=3)

_texts = some.text(some.characters())  # with lone surrogates
_aware = some.datetimes(timezones=some.sampled_from(ZONES))
_whole = some.integers(-(2**70), 2**70) | some.sampled_from([2**53 + 1, 2**60, 2**63, 2**64 - 1, 2**24 + 1])


class Unshowable:
    """A value that nobody can print."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def _numpy_times() -> some.SearchStrategy[Any]:
    units, counts = some.sampled_from(["D", "h", "s", "ms", "us", "ns", "Y"]), some.integers(-(10**6), 10**6)
    return some.builds(np.datetime64, counts, units) | some.builds(np.timedelta64, counts, units)


def _viewed(data: bytes) -> memoryview:
    return memoryview(data)


odd = (
    some.none()
    | some.booleans()
    | _whole
    | some.floats()
    | some.decimals()
    | _texts
    | some.binary(max_size=4)
    | some.binary(max_size=4).map(bytearray)
    | some.binary(max_size=4).map(_viewed)
    | some.dates()
    | some.datetimes()
    | _aware
    | some.times(timezones=some.none() | some.just(UTC))
    | some.timedeltas()
    | _numpy_times()
    | some.integers(-128, 127).map(np.int8)
    | some.integers(0, 2**64 - 1).map(np.uint64)
    | some.floats(width=32).map(np.float32)
    | some.floats(width=16).map(np.float16)
    | some.floats().map(np.float64)
    | some.booleans().map(np.bool_)
    | some.uuids()
    | some.sampled_from([np.datetime64("NaT"), (), {1}, [1.5], np.array([1.5, 2.0]), object(), range(3)])
)
values = some.recursive(
    odd,
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.lists(inner, max_size=2).map(tuple)
        | some.dictionaries(some.sampled_from(["a", "b", "c", "d", b"a", 1]), inner, max_size=3)
        | some.lists(some.tuples(some.sampled_from(["a", "b", 1]), inner), max_size=3)
    ),
    max_leaves=4,
)


def fitting(kind: pa.DataType) -> some.SearchStrategy[Any]:  # noqa: PLR0911 - one line for each type
    """Values that the type holds."""
    if types.is_dictionary(kind):
        return fitting(kind.value_type)
    if types.is_integer(kind):
        signed = types.is_signed_integer(kind)
        low, high = (
            (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1) if signed else (0, 2**kind.bit_width - 1)
        )
        return some.integers(low, high)
    if types.is_floating(kind):
        small = some.integers(-(2**11), 2**11)
        return some.floats(width=kind.bit_width) | small
    if types.is_decimal(kind):
        digits = some.integers(-(10**kind.precision) + 1, 10**kind.precision - 1)
        return digits.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -kind.scale)))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        size = kind.list_size if types.is_fixed_size_list(kind) else None
        items = fitting(kind.value_type)
        if kind.value_field.nullable:
            items = some.none() | items
        return some.lists(items, min_size=size or 0, max_size=2 if size is None else size)
    if types.is_map(kind):
        return some.dictionaries(fitting(kind.key_type), some.none() | fitting(kind.item_type), max_size=2)
    if types.is_struct(kind):
        parts = {kind.field(n).name: some.none() | fitting(kind.field(n).type) for n in range(kind.num_fields)}
        return some.fixed_dictionaries({}, optional=parts)
    return _of_time(kind) if types.is_temporal(kind) else _of_text(kind)


def _of_text(kind: pa.DataType) -> some.SearchStrategy[Any]:
    if types.is_boolean(kind):
        return some.booleans()
    if types.is_string(kind) or types.is_large_string(kind):
        return some.text()
    size = kind.byte_width if types.is_fixed_size_binary(kind) else None
    return some.binary(min_size=size or 0, max_size=size or 4)


def _of_time(kind: pa.DataType) -> some.SearchStrategy[Any]:
    if types.is_date(kind):
        return some.dates()
    us = 10**6 // min(PER_S[kind.unit], 10**6)
    if types.is_time(kind):
        return some.times().map(lambda value: value.replace(microsecond=value.microsecond // us * us))
    if types.is_duration(kind):
        bound = timedelta(days=100_000)
        return some.timedeltas(-bound, bound).map(lambda span: span - span % timedelta(microseconds=us))
    lowest, highest = (
        (datetime(1700, 1, 1), datetime(2200, 1, 1)) if kind.unit == "ns" else (datetime(2, 1, 1), datetime(9999, 1, 1))
    )
    moments = some.datetimes(lowest, highest, timezones=some.just(UTC) if kind.tz else some.none())
    return moments.map(lambda value: value.replace(microsecond=value.microsecond // us * us))


def has_arrived(given: Any, there: pa.Scalar) -> bool:  # noqa: PLR0911 - one line for each type
    """Whether a value is in a column as it was given."""
    kind = there.type
    if isinstance(there, pa.DictionaryScalar):
        return has_arrived(given, there.value)
    if isinstance(given, pa.Scalar):
        if isinstance(given, pa.DictionaryScalar):
            given = given.value
        if types.is_temporal(given.type) and given.is_valid:
            return _family(given.type) == _family(kind) and there.is_valid and _seconds_of(given) == _seconds_of(there)
        given = given.as_py()
    if given is None or not there.is_valid:
        return given is None and not there.is_valid
    if types.is_struct(kind):
        names = [kind.field(number).name for number in range(kind.num_fields)]
        known = isinstance(given, Mapping) and set(given) <= set(names)
        return known and all(has_arrived(given.get(name), there[name]) for name in names)
    if types.is_map(kind):
        pairs = list(given.items() if isinstance(given, Mapping) else given)
        found = [(pair["key"], pair["value"]) for pair in there.values]
        return len(pairs) == len(there.values) and all(
            has_arrived(key, held) and has_arrived(value, kept)
            for (key, value), (held, kept) in zip(pairs, found, strict=True)
        )
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        is_list = isinstance(given, (list, tuple, np.ndarray))
        return is_list and len(given) == len(there.values) and all(map(has_arrived, given, there.values))
    return _has_arrived(given, there)


def _has_arrived(given: Any, there: pa.Scalar) -> bool:  # noqa: PLR0911 - one line for each type
    kind = there.type
    if types.is_temporal(kind):
        return _seconds(given, kind) == _seconds_of(there)
    held, is_bool = there.as_py(), isinstance(given, (bool, np.bool_))
    if is_bool or types.is_boolean(kind):
        return bool(is_bool and types.is_boolean(kind) and bool(given) == held)
    if types.is_integer(kind):
        return _is_whole(given) and bool(int(given) == held)
    if types.is_floating(kind):
        if isinstance(given, (int, np.integer)):
            return _is_whole(given) and bool(int(given) == held)
        same: bool = float(given) == held and math.copysign(1, given) == math.copysign(1, held)
        return isinstance(given, (float, np.floating)) and (same or (math.isnan(given) and math.isnan(held)))
    if types.is_decimal(kind):
        return (
            isinstance(given, (Decimal, int, np.integer))
            and (given if isinstance(given, Decimal) else int(given)) == held
        )
    if isinstance(held, str):
        return isinstance(given, str) and bool(given == held)
    return isinstance(given, bytes) and bool(given == held)


def _is_whole(given: Any) -> bool:
    return isinstance(given, (int, np.integer)) and not isinstance(given, np.timedelta64)


def _family(kind: pa.DataType) -> str:
    if types.is_timestamp(kind):
        return "instant" if kind.tz else "wall clock"
    return "date" if types.is_date(kind) else "time" if types.is_time(kind) else "span"


def _seconds_of(there: pa.Scalar) -> Fraction:
    per_s = {"date32[day]": Fraction(1, 86_400), "date64[ms]": Fraction(1_000)}.get(str(there.type))
    return Fraction(there.value if hasattr(there, "value") else 0) / (per_s or PER_S[there.type.unit])


def _seconds(given: Any, kind: pa.DataType) -> Fraction | None:
    """None for what is no value of the type's family."""
    family, span = _family(kind), None
    if isinstance(given, np.datetime64 | np.timedelta64):
        moment = family == "wall clock" or (family == "date" and np.datetime_data(given.dtype)[0] == "D")
        if np.isnat(given) or not (moment if isinstance(given, np.datetime64) else family == "span"):
            return None
        return Fraction(int(given.astype(f"{given.dtype.kind}8[ns]").astype(np.int64)), 10**9)
    if isinstance(given, datetime):
        if family == ("wall clock" if given.utcoffset() is None else "instant"):
            offset = given.utcoffset() or timedelta(0)
            return _of(given.replace(tzinfo=None) - datetime(1970, 1, 1)) - _of(offset)
        return None
    if isinstance(given, date) and family == "date":
        span = given - date(1970, 1, 1)
    if isinstance(given, time) and given.tzinfo is None and family == "time":
        span = datetime.combine(date.min, given) - datetime.min
    if isinstance(given, timedelta) and family == "span":
        span = given
    return None if span is None else _of(span)


def _of(span: timedelta) -> Fraction:
    return Fraction(span // timedelta(microseconds=1), 10**6)
