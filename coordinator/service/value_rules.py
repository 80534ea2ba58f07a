"""The rule of each type that a column may have: the table of `docs/reference/values.md`."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from functools import lru_cache

import pyarrow as pa
from pyarrow import types

from tpc.coordinator.service import exact_values as values
from tpc.coordinator.service.nested_values import (
    ListRule,
    MapRule,
    PlainRule,
    Rule,
    StructRule,
    ZonedRule,
)


class UnsupportedError(ValueError):
    """A type that no column can have. The message says why, and what to declare instead."""


def column_rule(kind: pa.DataType) -> Rule:
    """Of the type of a whole column. Raises `UnsupportedError`."""
    if not types.is_dictionary(kind):
        return rule_of(kind)
    if types.is_nested(kind.value_type) or types.is_dictionary(kind.value_type):
        raise UnsupportedError("its values are no plain type; declare the type of the values")
    if kind.index_type.bit_width < 32:
        # Whether a batch has too many different values would depend on where it is cut.
        raise UnsupportedError("its index may be too small for the values of a batch; declare an index of int32")
    return rule_of(kind.value_type)


@lru_cache(maxsize=1024)
def rule_of(kind: pa.DataType) -> Rule:
    """Of a type. Raises `UnsupportedError`."""
    rule = _plain(kind) or _temporal(kind) or _nested(kind)
    if rule is None:
        raise UnsupportedError("there is no exact reading of it; declare the type of its storage")
    return rule


def _plain(kind: pa.DataType) -> Rule | None:
    rule: Rule | None = None
    if types.is_boolean(kind):
        rule = PlainRule(values.boolean, bool)
    elif types.is_integer(kind):
        low, high = (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1)
        if types.is_unsigned_integer(kind):
            low, high = 0, 2**kind.bit_width - 1
        rule = PlainRule(values.whole_within(low, high), int)
    elif types.is_floating(kind):
        # Of a whole number beyond 2**53 Arrow raises, also where a float is equal to it.
        rule = PlainRule(values.floating(kind.bit_width), *((float, int) if types.is_float64(kind) else ()))
    elif types.is_decimal(kind):
        rule = PlainRule(values.decimal(kind.precision, kind.scale))
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        rule = PlainRule(values.text, str)
    elif types.is_fixed_size_binary(kind):
        rule = PlainRule(values.binary(kind.byte_width), bytes)
    elif types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        rule = PlainRule(values.binary(None), bytes)
    elif types.is_null(kind):
        rule = PlainRule(values.nothing)
    return rule


def _temporal(kind: pa.DataType) -> Rule | None:
    # Arrow cuts off what a unit above the microsecond does not hold: such values are looked at one by one.
    if types.is_date32(kind):
        return PlainRule(values.day, date)
    if types.is_date64(kind):
        return PlainRule(values.day_in_ms, date)
    if types.is_timestamp(kind):
        _require_zone(kind)
        aware = kind.tz is not None
        return ZonedRule(values.moment(kind.unit, aware=aware), *_finely(kind.unit, datetime), aware=aware)
    if types.is_time(kind):
        return ZonedRule(values.clock(kind.unit), *_finely(kind.unit, time), aware=False)
    if types.is_duration(kind):
        return PlainRule(values.span(kind.unit), *_finely(kind.unit, timedelta))
    return None


def _finely(unit: str, taken: type) -> tuple[type, ...]:
    return (taken,) if unit in {"us", "ns"} else ()


def _require_zone(kind: pa.DataType) -> None:
    try:
        pa.scalar(0, kind).as_py()
    except Exception as error:  # what is raised depends on which packages look for the zone
        raise UnsupportedError(f"its time zone is not known here; declare UTC ({error})") from error


def _nested(kind: pa.DataType) -> Rule | None:
    if types.is_map(kind):
        if types.is_nested(kind.key_type):
            raise UnsupportedError("its keys are no plain type")
        return MapRule(rule_of(kind.key_type), rule_of(kind.item_type), nullable=kind.item_field.nullable)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        size = kind.list_size if types.is_fixed_size_list(kind) else None
        return ListRule(rule_of(kind.value_type), nullable=kind.value_field.nullable, size=size)
    if types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        rules = {field.name: rule_of(field.type) for field in fields}
        if len(rules) < len(fields) or not fields:
            raise UnsupportedError("a struct needs fields, each of another name")
        return StructRule(rules, frozenset(field.name for field in fields if not field.nullable))
    return None
