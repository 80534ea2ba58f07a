"""Which Python values a column of plain type takes, and as what Arrow is given them: exactly the value, or refused.

The table of `docs/reference/values.md`, for one value at a time. Lists, structs and maps of these stand in
`value_rules.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from typing import Any

import numpy as np

from tpc.describing import described

Exact = Callable[[Any], Any]
"""What Arrow is to be given for a value that is neither None nor a scalar of Arrow's. Raises `UnfitError`."""

_EPOCH = datetime(1970, 1, 1)
_FIRST_US = (datetime.min - _EPOCH) // timedelta(microseconds=1)
_LAST_US = (datetime.max - _EPOCH) // timedelta(microseconds=1)
NS_OF_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NS_OF_NUMPY_UNIT = {"W": 7 * 86_400 * 10**9, "D": 86_400 * 10**9, "h": 3_600 * 10**9, "m": 60 * 10**9, **NS_OF_UNIT}


class UnfitError(ValueError):
    """A value that a column does not take. The message says why, and what to write instead."""


def unfit(value: Any, why: str) -> UnfitError:
    """To be raised: the value, and why it is refused."""
    return UnfitError(f"{described(value, 80)} ({type(value).__name__}) {why}")


def boolean(value: Any) -> bool:
    """True or False, no number."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise unfit(value, "is no bool")


def whole(value: Any) -> int:
    """A whole number: no bool, and no float, whatever it is (that would fail at the first one with a fraction)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int.__int__(value)
    if isinstance(value, np.integer) and not isinstance(value, np.timedelta64):
        return int(value)
    why = "is no whole number"
    if isinstance(value, (float, np.floating, Decimal)):
        why += "; round it in the function, or declare float or pyarrow.decimal128(...)"
    raise unfit(value, why)


def whole_within(low: int, high: int) -> Exact:
    """A whole number of a range."""

    def exact(value: Any) -> int:
        number = whole(value)
        if not low <= number <= high:
            raise unfit(value, f"is outside of {low} to {high}")
        return number

    return exact


def floating(bits: int) -> Exact:
    """A float of so many bits, or a whole number that is one. NaN and the infinities are floats as others are."""
    narrow: Any = {16: np.float16, 32: np.float32, 64: np.float64}[bits]

    def exact(value: Any) -> Any:
        if isinstance(value, (float, np.floating)):
            number = float(value)
            is_same = number == value or math.isnan(number)
        else:
            try:
                number = float(whole(value))
            except UnfitError:
                raise unfit(value, "is no float") from None
            except OverflowError:
                raise unfit(value, f"is no float of {bits} bits") from None
            is_same = int(number) == value
        with np.errstate(all="ignore"):
            stored = narrow(number)
        if not is_same or not (float(stored) == number or math.isnan(number)):
            raise unfit(
                value, f"is not exactly a float of {bits} bits; numpy.float{bits}(value) says that this is meant"
            )
        return stored if bits == 16 else number  # older versions of Arrow take no Python float for 16 bits

    return exact


def text(value: Any) -> str:
    """Text, which UTF-8 can hold."""
    if not isinstance(value, str):
        raise unfit(value, "is no str" + ("; decode it" if isinstance(value, (bytes, bytearray)) else ""))
    content = str.__str__(value)
    try:
        content.encode()
    except UnicodeEncodeError as error:
        raise unfit(value, f"holds a lone surrogate at {error.start}, which UTF-8 cannot hold") from None
    return content


def binary(size: int | None) -> Exact:
    """Bytes, of a fixed number or of any."""

    def exact(value: Any) -> bytes:
        if not isinstance(value, bytes):
            # What its owner may change later is no value: a copy for each row would cost all who hand over bytes.
            advice = "; encode it" if isinstance(value, str) else "; say bytes(value)" if _has_bytes(value) else ""
            raise unfit(value, "is no bytes" + advice)
        content = bytes(memoryview(value))
        if size is not None and len(content) != size:
            raise unfit(value, f"has {len(content)} bytes, not {size}")
        return content

    return exact


def _has_bytes(value: Any) -> bool:
    return isinstance(value, (bytearray, memoryview))


def day(value: Any) -> int:
    """Days since 1970 of a date. A datetime is none: it has a time."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return date.toordinal(value) - _EPOCH.toordinal()
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] == "D":
        days = _ns_of_numpy(value) // _NS_OF_NUMPY_UNIT["D"]
        if _FIRST_US <= days * 86_400 * 10**6 <= _LAST_US:
            return days
        raise unfit(value, "is outside of the years 1 to 9999")
    raise unfit(value, "is no date" + ("; take its date()" if isinstance(value, datetime) else ""))


def day_in_ms(value: Any) -> int:
    """The same in milliseconds."""
    return day(value) * 86_400_000


def moment(unit: str, *, aware: bool) -> Exact:
    """`unit`s since 1970: in UTC of an aware datetime, of the wall clock of a naive one. The years are 1 to 9999."""

    def exact(value: Any) -> int:
        if isinstance(value, np.datetime64) and not aware:
            ns = _ns_of_numpy(value)
        elif isinstance(value, datetime) and type(value).__name__ != "NaTType":  # pandas' NULL is a datetime
            offset = value.utcoffset()
            if (offset is not None) != aware:
                advice = "say value.replace(tzinfo=...)" if aware else "declare datetime, which is an instant"
                raise unfit(value, f"has {'no' if aware else 'a'} time zone; {advice}")
            us = _us(_wall(value) - _EPOCH) - (0 if offset is None else _us(offset))
            ns = us * 1_000 + getattr(value, "nanosecond", 0)
        else:
            raise unfit(value, f"is no {'aware ' if aware else ''}datetime")
        if not _FIRST_US <= ns // 1_000 <= _LAST_US:
            raise unfit(value, "is outside of the years 1 to 9999" + (" of UTC" if aware else ""))
        return _in_units(value, ns, unit)

    return exact


def clock(unit: str) -> Exact:
    """`unit`s since midnight of a time without a zone."""

    def exact(value: Any) -> int:
        if not isinstance(value, time) or value.tzinfo is not None:
            raise unfit(value, "is no time without a zone")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return _in_units(value, (seconds * 10**6 + value.microsecond) * 1_000, unit)

    return exact


def span(unit: str) -> Exact:
    """`unit`s of a timedelta."""

    def exact(value: Any) -> int:
        if isinstance(value, np.timedelta64):
            ns = _ns_of_numpy(value)
        elif isinstance(value, timedelta):
            ns = _us(value) * 1_000 + getattr(value, "nanoseconds", 0)
        else:
            raise unfit(value, "is no timedelta")
        if not _us(timedelta.min) <= ns // 1_000 <= _us(timedelta.max):
            raise unfit(value, "is no timedelta of Python's")
        return _in_units(value, ns, unit)

    return exact


def decimal(precision: int, scale: int) -> Exact:
    """A decimal of so many digits, of which `scale` stand after the point; a whole number is one. A float is none.

    Arrow is not asked: of a huge negative exponent it ends the process.
    """
    place = Decimal((0, (1,), -scale))
    traps = [Inexact, InvalidOperation, DivisionByZero, Overflow]
    context = Context(prec=precision, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=traps)

    def exact(value: Any) -> Decimal:
        if not isinstance(value, Decimal):
            try:
                value = Decimal(whole(value))
            except UnfitError:
                raise unfit(value, "is no Decimal") from None
        try:
            if value.is_finite():
                return Decimal.quantize(value, place, context=context)
        except (Inexact, InvalidOperation, Overflow):
            pass
        raise unfit(value, f"is no decimal of {precision} digits, {scale} of them after the point")

    return exact


def nothing(value: Any) -> None:
    """None alone."""
    raise unfit(value, "is not None, and the column has no other value")


def _wall(value: datetime) -> datetime:
    parts = (value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond)
    return datetime(*parts)


def _us(value: timedelta) -> int:
    return (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds


def _in_units(value: Any, ns: int, unit: str) -> int:
    units, rest = divmod(ns, NS_OF_UNIT[unit])
    if rest:
        raise unfit(value, f"is no whole number of {unit}")
    if not -(2**63) < units < 2**63:
        raise unfit(value, f"is too far from zero for a number of {unit}")
    return units


def _ns_of_numpy(value: np.datetime64 | np.timedelta64) -> int:
    unit, step = np.datetime_data(value.dtype)
    if np.isnat(value):
        raise unfit(value, "is no time; None is NULL")
    if unit not in _NS_OF_NUMPY_UNIT:
        raise unfit(value, f"is counted in {unit}")
    return int(value.astype(np.int64)) * step * _NS_OF_NUMPY_UNIT[unit]
