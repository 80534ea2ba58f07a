"""Keys and values of a state as bytes: JSON with tags for what JSON has not, behind one byte that says the version.

Nothing here is pickled: a pickle runs code when it is read, and is bound to the classes of the program that
wrote it. A value of a type that does not stand here is refused by name. Equal values of one type are equal bytes, dicts
in the order of their keys; `1`, `1.0` and `True` are different bytes, and so different keys.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from json.encoder import encode_basestring_ascii
from typing import Any
from uuid import UUID

from tpc.errors import CorruptionError, DataError

VERSION = b"\x01"
TAG = "$"
PLAIN = frozenset((str, int, float, bool, type(None)))
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False, sort_keys=True)
_TEXT = frozenset((str,))
_TAGGED = f'"{TAG}'
_TUPLE = f'{{"{TAG}tuple":'
REMEDY = (
    "keep None, bool, int, float, str, bytes, Decimal, UUID, date, datetime, timedelta, and lists, tuples, sets and "
    "dicts of these; make of an object such a value before it is kept (dataclasses.asdict, say)."
)


def encode(value: Any, what: str = "value") -> bytes:
    """The bytes of a key or a value. Raises `DataError` for what cannot be kept; `what` says in it which of the two."""
    if type(value) is str:  # as most keys are
        return VERSION + encode_basestring_ascii(value).encode("ascii")
    try:
        text = _of_flat(value)
        return VERSION + (_ENCODER.encode(_plain(value)) if text is None else text).encode("ascii")
    except (_UnknownTypeError, ValueError, RecursionError) as error:
        raise DataError(f"a {what} of a state cannot be kept: {error}", column=what, remedy=REMEDY) from error


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


def _of_flat(value: Any) -> str | None:
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
            pairs = [f"{encode_basestring_ascii(key)}:{_FLAT[type(each)](each)}" for key, each in sorted(value.items())]
            text = f"{{{','.join(pairs)}}}"
            return None if _TAGGED in text else text  # a key that begins with the tag, or just a value
    except KeyError:  # a type that is not plain
        return None
    return None


class _UnknownTypeError(Exception):
    """A value of a type that has no spelling here."""


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is list:
        return [_plain(each) for each in value]
    if kind is dict:
        for key in value:
            if type(key) is not str or key.startswith(TAG):
                pairs = [[_plain(key), _plain(each)] for key, each in value.items()]
                return {"$dict": sorted(pairs, key=lambda pair: json.dumps(pair[0]))}
        return {key: each if type(each) in PLAIN else _plain(each) for key, each in value.items()}
    if kind not in _SPELLED:
        raise _UnknownTypeError(f"it holds a {kind.__module__}.{kind.__qualname__}")
    return {f"{TAG}{kind.__name__}": _SPELLED[kind](value)}


def _set(value: set[Any] | frozenset[Any]) -> list[Any]:
    return sorted((_plain(each) for each in value), key=json.dumps)


_FLAT: Mapping[type, Callable[[Any], str]] = {
    str: encode_basestring_ascii,
    int: int.__repr__,
    float: lambda value: float.__repr__(value) if math.isfinite(value) else json.dumps(value),
    bool: {False: "false", True: "true"}.__getitem__,
    type(None): lambda _: "null",
}
_SPELLED: Mapping[type, Callable[[Any], Any]] = {
    tuple: lambda value: [_plain(each) for each in value],
    set: _set,
    frozenset: _set,
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
