"""Which keys of a state are one: those of one type that Python holds for equal, whatever their spelling.

`0.0` and `-0.0`, `Decimal("1.0")` and `Decimal("1.00")`, one instant in two zones, also within tuples and frozensets.
Keys of different types are different keys, also where Python holds them for equal: `1`, `1.0` and `True`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

EXACT = frozenset((str, int, bool, type(None), bytes, UUID, date, timedelta))
"""Types whose equal values have one spelling."""
_EAST = timezone(timedelta(days=1) - timedelta(microseconds=1))
"""Where it is latest: every instant that a datetime can be has a date there, if it has none in UTC."""


def canonical(key: Any) -> Any:
    """What stands for all keys that are equal to this one and of its type; the key itself where it is that already."""
    of_kind = _CANONICAL.get(type(key))
    return key if of_kind is None else of_kind(key)


def _float(key: float) -> float:
    return 0.0 if key == 0.0 and str(key) != "0.0" else key


def _decimal(key: Decimal) -> Decimal:
    """Without zeros at its end. Not `normalize`, which rounds to the context's precision."""
    if not key.is_finite():
        return key
    sign, digits, exponent = key.as_tuple()
    assert isinstance(exponent, int)
    significant = len("".join(map(str, digits)).rstrip("0"))
    if not significant:
        made = Decimal(0)
    else:
        made = Decimal((sign, digits[:significant], exponent + len(digits) - significant))
    return key if str(made) == str(key) else made


def _datetime(key: datetime) -> datetime:
    if key.utcoffset() is None:
        return key
    try:
        made = key.astimezone(timezone.utc)
    except OverflowError:  # before the year 1 in UTC, or after 9999
        made = _at(key, _EAST if key.year == datetime.min.year else timezone(-_EAST.utcoffset(None)))
    return key if made.isoformat() == key.isoformat() else made


def _at(key: datetime, zone: timezone) -> datetime:
    """The instant in a zone, without UTC in between."""
    moved = zone.utcoffset(None) - (key.utcoffset() or timedelta(0))
    return (key.replace(tzinfo=None) + moved).replace(tzinfo=zone)


def _tuple(key: tuple[Any, ...]) -> tuple[Any, ...]:
    if EXACT.issuperset(map(type, key)):
        return key
    made = [canonical(each) for each in key]
    return key if all(one is other for one, other in zip(made, key, strict=True)) else tuple(made)


def _list(key: list[Any]) -> list[Any]:
    made = [canonical(each) for each in key]
    return key if all(one is other for one, other in zip(made, key, strict=True)) else made


def _set(key: set[Any] | frozenset[Any]) -> set[Any] | frozenset[Any]:
    pairs = [(each, canonical(each)) for each in key]
    return key if all(one is other for one, other in pairs) else type(key)(made for _, made in pairs)


def _dict(key: dict[Any, Any]) -> dict[Any, Any]:
    return {canonical(name): canonical(value) for name, value in key.items()}


_CANONICAL: Mapping[type, Callable[[Any], Any]] = {
    float: _float,
    Decimal: _decimal,
    datetime: _datetime,
    tuple: _tuple,
    list: _list,
    set: _set,
    frozenset: _set,
    dict: _dict,
}
