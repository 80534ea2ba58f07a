"""Rows of different systems made comparable: one value, one form, whoever stored it.

A timestamp is the same instant as text of ISO 8601 and as an object; a decimal is a number; a missing field is None; an
array is a list, and a set the sorted list of its members.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from tpc.chaos.user.target import Row
from tpc.errors import ConfigurationError

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)")


def columns_of(rows: Iterable[Row]) -> list[str]:
    """Every column that one of the rows has, in the order in which they come up; the first is the key of the others."""
    return list(dict.fromkeys(column for row in rows for column in row))


def comparable(rows: Iterable[Row], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Those columns of the rows as tuples that can be counted; without columns whole rows, as one text each.

    Raises `ConfigurationError` for a value that has no form here.
    """
    if not columns:
        return [(_text_of(dict(row)),) for row in rows]
    return [tuple(_value(row.get(column)) for column in columns) for row in rows]


def _value(value: Any) -> Any:
    form = next((form(value) for kinds, form in _FORMS if isinstance(value, kinds)), value)
    try:
        hash(form)
    except TypeError:
        return _text_of(value)
    return form


def _text_of(value: Any) -> str:
    try:
        return json.dumps(value, default=_plain, sort_keys=True)
    except (TypeError, ValueError) as error:  # keys that have no order, a value within itself
        raise _no_form(value) from error


def _plain(value: Any) -> Any:
    """What JSON has in the place of a value that it does not know, within another one too."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=_text_of)
    if callable(getattr(value, "tolist", None)):  # of `array`, NumPy and Arrow alike
        return value.tolist()
    try:
        hash(value)
    except TypeError:
        raise _no_form(value) from None  # a text of it might differ where the value does not
    return str(value)


def _no_form(value: Any) -> ConfigurationError:
    return ConfigurationError(
        f"a value of type {type(value).__name__} cannot be compared",
        remedy="give a number, a text, a time, bytes, or lists, sets and dicts (with texts for keys) of those.",
    )


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
    text = re.sub(r"([+-]\d\d)(\d\d)?$", lambda match: f"{match[1]}:{match[2] or '00'}", text)
    return re.sub(r"\.(\d+)", lambda match: f".{match[1][:6]:0<6}", text)


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
    ((dict, list, tuple, set, frozenset), _text_of),
    ((bytes, bytearray, memoryview), bytes),
)
