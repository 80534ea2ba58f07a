"""JSON and CSV back into raw values, by Python's own means, as docs/reference/sink-values.md has it.

Nothing of the writers is used here, and nothing of Arrow but the type of the column.
"""

from __future__ import annotations

import base64
import json
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from tests.sinks.values.columns import float_bits

_INSTANT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z?)")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
_PER_SECOND = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def json_row(line: str, schema: pa.Schema) -> list[Any]:
    """The raw values of a row; a field that is not there is NULL. Two fields of one name are an error."""
    found = json.loads(
        line, parse_float=_Number, parse_int=_Number, parse_constant=_no_json, object_pairs_hook=_distinct
    )
    return [from_json(field.type, found.get(field.name)) for field in schema]


class _Number(str):
    """The digits, as they are."""


def _no_json(word: str) -> Any:
    raise AssertionError(f"{word} is no JSON")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


def from_json(kind: pa.DataType, value: Any) -> Any:  # noqa: PLR0911  one for each kind
    """A value of JSON as a raw one."""
    if value is None:
        return None
    if types.is_dictionary(kind):
        return from_json(kind.value_type, value)
    if types.is_struct(kind):
        return tuple(from_json(field.type, value.get(field.name)) for field in kind)
    if types.is_map(kind):
        return [(key.encode(), from_json(kind.item_type, item)) for key, item in value.items()]
    if types.is_nested(kind):
        return [from_json(kind.value_type, item) for item in value]
    if types.is_boolean(kind):
        assert isinstance(value, bool)
        return value
    is_number = isinstance(value, _Number)
    if types.is_floating(kind):
        assert is_number or value in ("NaN", "Infinity", "-Infinity")
    elif types.is_integer(kind) or types.is_decimal(kind):
        assert is_number
    elif types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return base64.b64decode(value, validate=True)
    else:
        assert isinstance(value, str)
        assert not is_number
    return from_text(kind, value)


def from_text(kind: pa.DataType, text: str) -> Any:  # noqa: PLR0911  one for each kind
    """The text of a value as a raw one."""
    if types.is_boolean(kind):
        return {"true": True, "false": False}[text]
    if types.is_integer(kind):
        return int(text)
    if types.is_decimal(kind):
        return Decimal(text)
    if types.is_floating(kind):
        return float_bits(float(np.array(text, f"f{kind.bit_width // 8}")) if kind.bit_width < 64 else float(text))
    if types.is_date(kind):
        found = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", text)
        assert found, text
        return _days(*found.groups()) * (1 if types.is_date32(kind) else 86_400_000)
    if types.is_time(kind):
        found = _TIME.fullmatch(text)
        assert found, text
        return _count(kind.unit, 0, *found.groups())
    if types.is_timestamp(kind):
        found = _INSTANT.fullmatch(text)
        assert found, text
        assert bool(found[8]) == (kind.tz is not None), text
        return _count(kind.unit, _days(*found.groups()[:3]), *found.groups()[3:7])
    return text.encode()


def _days(year: str, month: str, day: str) -> int:
    days: int = np.datetime64(f"{year}-{month}-{day}", "D").astype(np.int64).item()
    return days


def _count(unit: str, days: int, hours: str, minutes: str, seconds: str, fraction: str | None) -> int:
    whole = ((days * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    digits = (fraction or "").ljust(9, "0")
    assert not digits[_PER_SECOND[unit] :].strip("0"), fraction
    return int(whole * 10 ** _PER_SECOND[unit]) + int(digits[: _PER_SECOND[unit]] or 0)


def csv_rows(text: str, schema: pa.Schema) -> list[list[Any]]:
    """The raw values of all rows but the header: an unquoted empty field is NULL."""
    rows, fields, place = [], [], 0
    while place < len(text):
        if text[place] == '"':
            end = place + 1
            while text[end] != '"' or text[end + 1 : end + 2] == '"':
                end += 1 if text[end] != '"' else 2
            fields.append(text[place + 1 : end].replace('""', '"'))
            end += 1
        else:
            end = place
            while text[end] not in ",\n":
                end += 1
            fields.append(text[place:end] if end > place else None)  # type: ignore[arg-type]
        if text[end] == "\n":
            rows.append(fields)
            fields = []
        place = end + 1
    assert rows[0] == schema.names
    return [
        [None if text is None else _csv(field.type, text) for field, text in zip(schema, row, strict=True)]
        for row in rows[1:]
    ]


def _csv(kind: pa.DataType, text: str) -> Any:
    if types.is_dictionary(kind):
        return _csv(kind.value_type, text)
    if types.is_floating(kind):
        assert re.fullmatch(r"NaN|-?Infinity|-?[\d.]+(e[+-]?\d+)?", text), text  # what Spark, pandas and Arrow read
    return from_text(kind, text)
