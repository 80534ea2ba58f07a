"""The JSON of records, committables and notes: one canonical form, so that equal values are equal bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, TypeAlias, TypeVar, get_type_hints

JSON: TypeAlias = "None | bool | int | float | str | Sequence[JSON] | Mapping[str, JSON]"
JSONObject: TypeAlias = "Mapping[str, Any]"
NoteT = TypeVar("NoteT")

_INTEGER_MAX = 2**53
"""Above it a number is none that a note of ours counts, and too large for what the system takes."""


def canonical(value: JSON | JSONObject) -> bytes:
    """`value` as UTF-8 JSON with sorted keys and no spaces. Raises `ValueError` for NaN and infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def parse(data: bytes | str) -> Any:
    """The inverse of `canonical`. Raises `ValueError` for anything else, also for what is nested too deeply."""
    try:
        return json.loads(data, parse_constant=_refused, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_note(data: bytes | str, kind: type[NoteT]) -> NoteT:
    """A dataclass of texts and numbers out of a file that anybody may have written. Raises `ValueError`.

    Fields that are not the dataclass's are passed over; one that is missing has its default.
    """
    found = parse(data)
    if not isinstance(found, dict):
        raise ValueError(f"it holds no {kind.__name__}")
    hints, told = get_type_hints(kind), dict[str, Any]()
    for field in fields(kind):  # type: ignore[arg-type]  # a dataclass: TypeVar cannot say so
        if field.name not in found and field.default is not MISSING:
            continue
        told[field.name] = _of_kind(found.get(field.name), hints[field.name], field.name)
    return kind(**told)


def _of_kind(value: Any, hint: Any, name: str) -> Any:
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint or (hint is int and abs(value) > _INTEGER_MAX):
        raise ValueError(f"{name} is {str(value)[:100]!r}, and no {hint.__name__}")
    return value


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:100]} is too large")
    return value
