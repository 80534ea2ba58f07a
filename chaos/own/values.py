"""Rows of different systems made comparable: one value, one form, whoever stored it.

A timestamp is the same instant as text of ISO 8601 and as an object; a decimal is a number; a missing field is None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from tpc.chaos.own.target import Row

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)")


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Every column that one of the rows has, in the order in which they come up; the first is the key of the others."""
    return list(dict.fromkeys(column for row in rows for column in row))


def comparable(rows: Iterable[Row], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Those columns of the rows as tuples that can be counted; without columns whole rows, as one text each."""
    if not columns:
        return [(json.dumps(dict(row), default=str, sort_keys=True),) for row in rows]
    return [tuple(_value(row.get(column)) for column in columns) for row in rows]


def _value(value: Any) -> Any:
    return next((form(value) for kinds, form in _FORMS if isinstance(value, kinds)), value)


def _text(text: str) -> str:
    if not _INSTANT.fullmatch(text):
        return text
    try:
        return _instant(datetime.fromisoformat(_padded(text)))
    except ValueError:
        return text


def _padded(text: str) -> str:
    """As Python 3.10 reads it: an offset with a colon, six digits after the point."""
    text = re.sub(r"Z$", "+00:00", text)
    text = re.sub(r"([+-]\d\d)(\d\d)?$", lambda found: f"{found[1]}:{found[2] or '00'}", text)
    return re.sub(r"\.(\d+)", lambda found: f".{found[1][:6]:0<6}", text)


def _instant(moment: datetime) -> str:
    """A time without a zone is taken for UTC, as MongoDB's driver and a UTC session give it."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return aware.astimezone(timezone.utc).isoformat()


def _number(value: Decimal) -> Any:
    """As JSON has it: an integer or a float where that is exact."""
    if not value.is_finite():
        return str(value)
    if value == value.to_integral_value():
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else value


_FORMS: Sequence[tuple[tuple[type, ...], Callable[[Any], Any]]] = (
    ((datetime,), _instant),  # before `date`, which it is too
    ((date,), date.isoformat),
    ((str,), _text),
    ((Decimal,), _number),
    ((dict, list, tuple), lambda value: json.dumps(value, default=str, sort_keys=True)),
    ((bytes, bytearray, memoryview), bytes),
)
