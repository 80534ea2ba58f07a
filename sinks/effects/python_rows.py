"""A row of the outbox as exact Python values: decimals as `Decimal`, instants as aware datetimes, binary as bytes.

The outbox stores a row as JSON, which has fewer types, and with it the type of each column. A row of an earlier version
has no types and is read as plain JSON.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow

Spec: TypeAlias = "str | list[Any] | None"
"""The type of a JSON value: a key of `_READERS`, [list | map, of what] or [struct, of which fields]."""


def specs_of(schema: pyarrow.Schema) -> dict[str, Spec]:
    """The spec of every column. Raises `ConfigurationError` for a type without an exact Python value."""
    return {field.name: _spec(field.type, field.name) for field in schema}


def python_row(row: str, specs: str | None) -> dict[str, Any]:
    """The row in the outbox; `specs` as JSON, None if none were stored."""
    if specs is None:
        return dict(json.loads(row))
    fields = json.loads(row, parse_float=_Digits, parse_int=_Digits)
    return _struct(json.loads(specs), fields)


class _Digits(str):
    """A number as text, until its type is known."""


def _spec(kind: pyarrow.DataType, column: str) -> Spec:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _spec(kind.value_type, column)
    if types.is_timestamp(kind) and kind.unit == "ns":
        raise ConfigurationError(
            f"column {column!r} is of type {kind}, and a call gets datetimes of microseconds",
            remedy="convert it to microseconds before it is written.",
        )
    if types.is_struct(kind):
        return ["struct", {field.name: _spec(field.type, f"{column}.{field.name}") for field in kind}]
    if types.is_map(kind):
        return ["map", _spec(kind.item_type, column)]
    if types.is_nested(kind):
        return ["list", _spec(kind.value_type, column)]
    words: tuple[tuple[Callable[[Any], bool], str], ...] = (
        *((types.is_integer, "int"), (types.is_float64, "float"), (types.is_floating, "float32")),
        *((types.is_decimal, "decimal"), (types.is_date, "date"), (types.is_timestamp, "datetime")),
        *((types.is_binary, "bytes"), (types.is_large_binary, "bytes"), (types.is_fixed_size_binary, "bytes")),
    )
    return next((word for is_kind, word in words if is_kind(kind)), None)


def _struct(specs: Mapping[str, Spec], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _value(spec, fields.get(name)) for name, spec in specs.items()}


def _value(spec: Spec, value: Any) -> Any:
    if value is None or spec is None:
        return value
    if isinstance(spec, str):
        return _READERS[spec](value)
    kind, of = spec
    if kind == "struct":
        return _struct(of, value)
    return (
        [_value(of, one) for one in value] if kind == "list" else {name: _value(of, one) for name, one in value.items()}
    )


def _float32(text: str) -> float:
    """The 32-bit number with these digits; the nearest 64-bit number would be another one."""
    import pyarrow as pa

    number: float = pa.scalar(str(text)).cast(pa.float32()).as_py()
    return number


def _datetime(text: str) -> dt.datetime:
    moment = dt.datetime.fromisoformat(text.removesuffix("Z"))
    return moment.replace(tzinfo=dt.timezone.utc) if text.endswith("Z") else moment


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "float32": _float32,
    "decimal": Decimal,
    "bytes": base64.b64decode,
    "date": dt.date.fromisoformat,
    "datetime": _datetime,
}
