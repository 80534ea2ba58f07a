"""Keys and values of a state as bytes: JSON with tags for what JSON has not, behind one byte that says the version.

Nothing here is pickled: a pickle runs code when it is read, and is bound to the classes of the program that
wrote it. A value of a type that has no spelling here is refused by name.

A value comes back as a function left it: a dict in its order, a datetime in its time zone. Otherwise what a function
sees would depend on whether an epoch was cut since. Of a key the order of a dict has no meaning: equal keys of one type
are equal bytes. `1`, `1.0` and `True` are different bytes, and so different keys.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from json.encoder import encode_basestring_ascii
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tpc.errors import ConfigurationError, CorruptionError, DataError

VERSION = b"\x01"
TIMER = b"\x03"
"""In the place of the version in the keys of a timer's store."""
TAG = "$"
PLAIN = frozenset((str, int, float, bool, type(None)))
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_TEXT = frozenset((str,))
_ESCAPED_SURROGATE = "\\ud"
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_COLLECTIONS = frozenset((list, tuple, set, frozenset))
_TAGGED = f'"{TAG}'
_TUPLE = f'{{"{TAG}tuple":'
REMEDY = (
    "keep None, bool, int, float, str, bytes, Decimal, UUID, date, datetime, timedelta, and lists, tuples, sets and "
    "dicts of these; make of an object such a value before it is kept (dataclasses.asdict, say)."
)


def encode(value: Any) -> bytes:
    """The bytes of a value. Raises `DataError` for what cannot be kept."""
    return _encoded(value, "value", is_key=False)


def encode_key(key: Any) -> bytes:
    """The bytes of a key: the same for dicts that are equal, in whatever order. Raises `DataError`."""
    return _encoded(key, "key", is_key=True)


def _encoded(value: Any, what: str, *, is_key: bool) -> bytes:
    try:
        if type(value) is str:  # as most keys are
            text: str | None = encode_basestring_ascii(value)
        else:
            text = _of_flat(value, is_key)
        if text is None:
            text = _ENCODER.encode(_plain(value, is_key))
        if not is_key and _ESCAPED_SURROGATE in text:  # one outside of the 65,536 first characters is two of them
            _require_no_halves(value)
    except (_UnknownTypeError, ValueError, RecursionError) as error:
        raise DataError(f"a {what} of a state cannot be kept: {error}", column=what, remedy=REMEDY) from error
    return VERSION + text.encode("ascii")


def _require_no_halves(value: Any) -> None:
    """Refuse text in which two surrogates stand side by side: it would come back as the one character they make."""
    if type(value) is str:
        if _HALVES.search(value):
            raise ValueError("it holds text with two surrogates side by side, the halves of one character")
    elif type(value) is dict:
        for each in value.items():
            _require_no_halves(each)
    elif type(value) in _COLLECTIONS:
        for each in value:
            _require_no_halves(each)


def decode(data: bytes) -> Any:
    """The inverse of `encode`; each call makes a new value."""
    if data[:1] != VERSION:
        raise CorruptionError(f"a state holds bytes of an unknown version: {data[:1]!r}")
    try:
        text = data[1:].decode("ascii")
        tags = text.count(_TAGGED)
        # `decode` of a decoder looks for white space besides, which nobody has written.
        if not tags:
            value, end = _PLAIN_DECODER.raw_decode(text)
        elif tags == 1 and text.startswith(_TUPLE):
            parts, end = _PLAIN_DECODER.raw_decode(text, len(_TUPLE))
            if not text.startswith("}", end):
                raise ValueError("a tuple does not end")
            value, end = tuple(parts), end + 1
        else:
            value, end = _DECODER.raw_decode(text)
        if end < len(text):
            raise ValueError(f"{len(text) - end} characters follow it")
        return value
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise CorruptionError(f"a state holds bytes that are no value: {error}") from error


def _of_flat(value: Any, is_key: bool) -> str | None:
    """The text of a plain value, of a tuple of them, or of a dict, as most values are; None for any other value.

    What the encoder would write, in less than half of its time, most of which it takes to get ready.
    """
    kind = type(value)
    if kind in _FLAT:
        return _FLAT[kind](value)
    try:
        if kind is tuple:
            return f"{_TUPLE}[{','.join([_FLAT[type(each)](each) for each in value])}]}}"
        if kind is dict and _TEXT.issuperset(map(type, value)):
            items = sorted(value.items()) if is_key else value.items()
            pairs = [f"{encode_basestring_ascii(key)}:{_FLAT[type(each)](each)}" for key, each in items]
            text = f"{{{','.join(pairs)}}}"
            return None if _TAGGED in text else text  # a key that begins with the tag, or just a value
    except KeyError:  # a type that is not plain
        return None
    return None


class _UnknownTypeError(Exception):
    """A value of a type that has no spelling here."""


def _plain(value: Any, is_key: bool) -> Any:  # noqa: PLR0911  one for each kind
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is list:
        return [_plain(each, is_key) for each in value]
    if kind is dict:
        return _dict(value, is_key)
    if kind is tuple:
        return {f"{TAG}tuple": [_plain(each, is_key) for each in value]}
    if kind is set or kind is frozenset:
        return {f"{TAG}{kind.__name__}": sorted((_plain(each, is_key) for each in value), key=json.dumps)}
    if kind is datetime and not is_key:
        return _datetime(value)
    if kind not in _SPELLED:
        raise _UnknownTypeError(f"it holds a {kind.__module__}.{kind.__qualname__}")
    return {f"{TAG}{kind.__name__}": _SPELLED[kind](value)}


def _dict(value: dict[Any, Any], is_key: bool) -> dict[str, Any]:
    if all(type(name) is str and not name.startswith(TAG) for name in value):
        items: Any = sorted(value.items()) if is_key else value.items()
        return {name: each if type(each) in PLAIN else _plain(each, is_key) for name, each in items}
    pairs = [[_plain(name, is_key), _plain(each, is_key)] for name, each in value.items()]
    return {f"{TAG}dict": sorted(pairs, key=lambda pair: json.dumps(pair[0])) if is_key else pairs}


def _datetime(value: datetime) -> dict[str, Any]:
    """With its zone and not only the offset of that moment, which arithmetic over a change of the clocks shows."""
    zone, kind = value.tzinfo, type(value.tzinfo)
    if isinstance(zone, timezone):
        name = zone.tzname(None)
        if not value.fold and name == timezone(zone.utcoffset(None)).tzname(None):
            return {f"{TAG}datetime": value.isoformat()}
        return {f"{TAG}named": [value.isoformat(), name, value.fold]}
    if zone is None and not value.fold:
        return {f"{TAG}datetime": value.isoformat()}
    key = zone.key if isinstance(zone, ZoneInfo) and kind is ZoneInfo else None
    if zone is not None and key is None:
        raise _UnknownTypeError(
            f"it holds a datetime with a {kind.__module__}.{kind.__qualname__}: only one with a datetime.timezone or "
            "with the zoneinfo.ZoneInfo of a name comes back as it was"
        )
    return {f"{TAG}zoned": [value.replace(tzinfo=None, fold=0).isoformat(), key, value.fold]}


def _named(told: list[Any]) -> datetime:
    shown, name, fold = told
    value = datetime.fromisoformat(shown)
    return value.replace(tzinfo=timezone(value.utcoffset() or timedelta(0), name), fold=fold)


def _zoned(told: list[Any]) -> datetime:
    shown, key, fold = told
    try:
        zone = None if key is None else ZoneInfo(key)
    except ZoneInfoNotFoundError as error:
        raise ConfigurationError(
            f"a state holds a datetime of the time zone {key}, which this machine does not know",
            remedy="install the zones (pip install tzdata), then start again. Nothing was changed.",
        ) from error
    return datetime.fromisoformat(shown).replace(tzinfo=zone, fold=fold)


_FLAT: Mapping[type, Callable[[Any], str]] = {
    str: encode_basestring_ascii,
    int: int.__repr__,
    float: lambda value: float.__repr__(value) if math.isfinite(value) else json.dumps(value),
    bool: {False: "false", True: "true"}.__getitem__,
    type(None): lambda _: "null",
}
_SPELLED: Mapping[type, Callable[[Any], Any]] = {
    bytes: lambda value: base64.b64encode(value).decode("ascii"),
    Decimal: str,
    UUID: str,
    datetime: datetime.isoformat,
    date: date.isoformat,
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
}
"""By type, not by class: a subclass would come back as something else."""

_READ: Mapping[str, Callable[[Any], Any]] = {
    "$dict": dict,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$Decimal": Decimal,
    "$UUID": UUID,
    "$datetime": datetime.fromisoformat,
    "$named": _named,
    "$zoned": _zoned,
    "$date": date.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
}


def _from_object(found: dict[str, Any]) -> Any:
    if len(found) == 1:
        [(name, value)] = found.items()
        if name.startswith(TAG):
            return _READ[name](value)
    return found


_DECODER = json.JSONDecoder(object_hook=_from_object)
_PLAIN_DECODER = json.JSONDecoder()
"""Of text without tags: it calls nothing of ours for each object."""
