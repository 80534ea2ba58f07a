"""Arrow values as BSON values: values with a BSON type are converted, others are refused.

- decimals become Decimal128 (34 digits); dates become midnight UTC, since BSON knows instants only;
- timestamps are instants in milliseconds: one with parts of a millisecond is refused; a timestamp without
  time zone is taken as UTC;
- structs and maps (with string keys) become documents, lists arrays; intervals and times of day have no BSON type.

(Types and sizes: https://bsonspec.org, field names: MongoDB manual, "Documents".)
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pyarrow

Convert: TypeAlias = "Callable[[Any], Any]"
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
GUARDS = "_tpc"
"""The one field name of a target document that is reserved for this library."""


def fault_of_type(kind: pyarrow.DataType) -> str | None:
    """Why a column of this type cannot be written, None if it can."""
    from pyarrow import types

    if types.is_map(kind) and not (types.is_string(kind.key_type) or types.is_large_string(kind.key_type)):
        return f"a map with keys of type {kind.key_type}: keys of a document are strings"
    if types.is_struct(kind):
        names = [field.name for field in kind]
        if len(set(names)) < len(names):
            return f"a struct with two fields of one name, {next(n for n in names if names.count(n) > 1)!r}"
        faults = (fault_of_name(field.name) or fault_of_type(field.type) for field in kind)
        return next((fault for fault in faults if fault), None)
    if types.is_nested(kind) or types.is_dictionary(kind):
        return fault_of_type(kind.item_type if types.is_map(kind) else kind.value_type)
    if types.is_timestamp(kind) and kind.unit == "ns":
        return "a timestamp in nanoseconds: cast it to microseconds"
    return None if is_scalar(kind) else f"type {kind} has no BSON type"


def is_scalar(kind: pyarrow.DataType) -> bool:
    """Whether values of this type are single BSON values that have an order."""
    from pyarrow import types

    return bool(
        is_number(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_null(kind)
    )


def is_number(kind: pyarrow.DataType) -> bool:
    """Whether values of this type can be added."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def fault_of_name(name: str) -> str | None:
    """Why a field cannot have this name, None if it can."""
    if not name or "\0" in name:
        return f"the name {name!r} is empty or contains a NUL"
    if name.startswith("$") or "." in name:
        return f"the name {name!r} begins with '$' or has a '.' in it: update operators would take it for a path"
    return None


def converter(kind: pyarrow.DataType) -> Convert:
    """A function that converts a value of this type, as `to_pylist` gives it, to BSON. It raises `ValueError`."""
    from pyarrow import types

    makers: tuple[tuple[Callable[[Any], bool], Callable[[Any], Convert]], ...] = (
        (types.is_dictionary, lambda k: converter(k.value_type)),
        (types.is_decimal, lambda _: _decimal),
        (types.is_date, lambda _: _date),
        (types.is_timestamp, lambda _: _timestamp),
        (types.is_uint64, lambda _: _int64),
        (types.is_map, lambda k: _mapping_of(converter(k.item_type))),
        (types.is_struct, lambda k: _struct_of({field.name: converter(field.type) for field in k})),
        (types.is_nested, lambda k: _list_of(converter(k.value_type))),
    )
    return next((make(kind) for applies, make in makers if applies(kind)), _unchanged)


def _unchanged(value: Any) -> Any:
    return value


def _decimal(value: decimal.Decimal | None) -> Any:
    from bson.decimal128 import Decimal128

    if value is None:
        return None
    try:
        return Decimal128(value)
    except decimal.DecimalException:
        raise ValueError("a decimal of more than 34 digits has no BSON type") from None


def _date(value: dt.date | None) -> dt.datetime | None:
    return None if value is None else dt.datetime(value.year, value.month, value.day, tzinfo=dt.timezone.utc)


def _timestamp(value: dt.datetime | None) -> dt.datetime | None:
    if value is None:
        return None
    return value.replace(tzinfo=dt.timezone.utc) if value.tzinfo is None else value.astimezone(dt.timezone.utc)


def _int64(value: int | None) -> int | None:
    if value is not None and value > INT64_MAX:
        raise ValueError(f"{value} is greater than the greatest 64-bit integer, {INT64_MAX}")
    return value


def _mapping_of(convert: Convert) -> Convert:
    def mapping(value: Any) -> Any:
        if value is None:
            return None
        for name, _ in value:
            if fault := fault_of_name(name):
                raise ValueError(f"key of a map: {fault}")
        return {name: convert(item) for name, item in value}

    return mapping


def _struct_of(fields: Mapping[str, Convert]) -> Convert:
    def struct(value: Any) -> Any:
        return None if value is None else {name: convert(value[name]) for name, convert in fields.items()}

    return struct


def _list_of(convert: Convert) -> Convert:
    def array(value: Any) -> Any:
        return None if value is None else [convert(item) for item in value]

    return array


def fault_of_key(value: Any) -> str | None:
    """Why a value cannot be (part of) a document's `_id`, None if it can."""
    if value is None:
        return "NULL cannot be a key"
    if isinstance(value, float) and math.isnan(value):
        return "NaN cannot be a key: it does not equal itself"
    if isinstance(value, dt.datetime) and value.microsecond % 1000:
        return "a key cannot have microseconds: BSON stores milliseconds, two rows would become one document"
    if isinstance(value, list):
        return "an array cannot be an _id"
    return None


def fault_of_order(value: Any) -> str | None:
    """Why a value cannot be an order that is stored, None if it can."""
    if isinstance(value, dt.datetime) and value.microsecond % 1000:
        return "an order that is stored cannot have microseconds: BSON stores milliseconds, an older row would win"
    return None


def has_order(kind: pyarrow.DataType) -> bool:
    """Whether MongoDB orders values of this type as Arrow does. It orders bytes by their length first."""
    from pyarrow import types

    is_bytes = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return is_scalar(kind) and not is_bytes


def hashable(key: Any) -> Hashable:
    """A form of an `_id`; two forms are equal exactly if MongoDB treats the two values as equal."""
    if isinstance(key, dict):
        return tuple((name, hashable(value)) for name, value in key.items())
    return (type(key).__name__ == "bool", comparable(key))


def comparable(value: Any) -> Any:
    """A form of a BSON scalar that Python can compare within its kind."""
    from bson.decimal128 import Decimal128

    return value.to_decimal() if isinstance(value, Decimal128) else value
