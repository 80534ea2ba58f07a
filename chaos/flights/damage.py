"""The kinds of broken records in the demo's input, and how a record is written and broken."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any


def as_json(values: Mapping[str, Any]) -> bytes:
    """A whole record's value."""
    return json.dumps(values, separators=(",", ":")).encode()


Damage = Callable[[dict[str, Any]], bytes | None]


def _without(field: str) -> Damage:
    return lambda values: as_json({name: value for name, value in values.items() if name != field})


def _with(field: str, value: Any) -> Damage:
    return lambda values: as_json({**values, field: value})


BROKEN_FLIGHT_KINDS: Mapping[str, Damage] = {
    "torn": lambda values: as_json(values)[:-20],
    "empty": lambda _values: None,
    "without origin": _without("origin"),
    "without id": _without("flight_id"),
    "month 13": _with("time", "2013-13-01T10:00:00Z"),
    "negative distance": _with("distance", -1),
}

BROKEN_REPORT_KINDS: Mapping[str, Damage] = {
    "torn": lambda values: as_json(values)[:-20],
    "without time": _without("time"),
    "hotter than the sun": _with("temp", 10_000.0),
}
