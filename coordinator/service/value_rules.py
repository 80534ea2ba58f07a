"""Which Python values a column takes, by its type: the table of `docs/reference/values.md`.

Plain types, and lists, structs and maps of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from pyarrow import types

from tpc.coordinator.service import exact_values as values
from tpc.coordinator.service.exact_values import Exact, UnfitError, unfit
from tpc.describing import described
from tpc.support.arrow_errors import ARROW_REFUSALS


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


# A rule says two things: whether Arrow alone converts values of these Python types exactly, so that no value is looked
# at in Python; and, for all others, what one value is exactly.

_NONE = type(None)


class Rule(ABC):
    """Of one type."""

    holds_mutable = False
    """Whether a value that is taken may be changed by its owner later."""

    @abstractmethod
    def is_plain(self, values: Collection[Any]) -> bool:
        """Whether Arrow converts all these values exactly or raises, as their Python types tell."""

    @abstractmethod
    def exact(self, value: Any) -> Any:
        """What Arrow is given for a value that is not None. Raises `UnfitError`."""

    def kept(self, value: Any) -> Any:
        """The value as it is now, whatever its owner does with it later."""
        return value

    def stored(self, value: Any) -> Any:
        """What Arrow is given. Raises `UnfitError`."""
        if isinstance(value, pa.Scalar):
            try:
                value = value.as_py()
            except (ValueError, OverflowError, *ARROW_REFUSALS) as error:
                raise UnfitError(f"a {value.type} of Arrow's that is no value of Python's: {error}") from None
        return None if value is None else self.exact(value)


class PlainRule(Rule):
    """Of a type without parts. `easy`: the Python types that Arrow converts exactly."""

    def __init__(self, exact: Exact, *easy: type) -> None:
        self._exact = exact
        self._easy = {*easy, _NONE}

    def is_plain(self, values: Collection[Any]) -> bool:
        """See `Rule.is_plain`."""
        return self._easy.issuperset(map(type, values))

    def exact(self, value: Any) -> Any:
        """See `Rule.exact`."""
        return self._exact(value)


class ZonedRule(PlainRule):
    """Of datetimes and times, which have a zone or have none."""

    def __init__(self, exact: Exact, *easy: type, aware: bool) -> None:
        super().__init__(exact, *easy)
        self._aware = aware

    def is_plain(self, values: Collection[Any]) -> bool:
        """See `Rule.is_plain`."""
        if not super().is_plain(values):
            return False
        zones = [value.tzinfo for value in values if value is not None]
        kinds = set(map(type, zones))
        if not self._aware:
            return kinds <= {_NONE}
        # Others may have no hash, and are asked one by one. Of parts of a second in an offset Arrow takes no notice.
        return kinds <= {timezone, ZoneInfo} and not any(map(_has_odd_offset, set(zones)))


def _has_odd_offset(zone: Any) -> bool:
    return type(zone) is timezone and bool(zone.utcoffset(None).microseconds)


class ListRule(Rule):
    """Of lists of one type, of `size` values or of any number."""

    holds_mutable = True

    def __init__(self, item: Rule, *, nullable: bool, size: int | None) -> None:
        self._item, self._nullable, self._size = item, nullable, size

    def is_plain(self, values: Collection[Any]) -> bool:
        """See `Rule.is_plain`."""
        if not {list, tuple, _NONE}.issuperset(map(type, values)):
            return False
        items = list(chain.from_iterable(value for value in values if value is not None))
        return self._item.is_plain(items) and (self._nullable or _NONE not in map(type, items))

    def exact(self, value: Any) -> list[Any]:
        """See `Rule.exact`."""
        if not _is_sequence(value):
            raise unfit(value, "is no list" + ("; a set has no order" if isinstance(value, (set, frozenset)) else ""))
        if self._size is not None and len(value) != self._size:
            raise unfit(value, f"has {len(value)} values, not {self._size}")
        items = [_inside(self._item, each, f"value {number}") for number, each in enumerate(value)]
        if not self._nullable and None in items:
            raise unfit(value, "holds None, which the type excludes")
        return items

    def kept(self, value: Any) -> Any:
        """See `Rule.kept`."""
        if not _is_sequence(value):
            return value
        return list(map(self._item.kept, value)) if self._item.holds_mutable else list(value)


class StructRule(Rule):
    """Of structs: a mapping from the names of its fields; a field that it leaves out is NULL."""

    holds_mutable = True

    def __init__(self, fields: Mapping[str, Rule], required: frozenset[str]) -> None:
        self._fields, self._required = fields, required

    def is_plain(self, values: Collection[Any]) -> bool:
        """See `Rule.is_plain`."""
        if self._required or not {dict, _NONE}.issuperset(map(type, values)):
            return False
        there = [value for value in values if value is not None]
        if not self._fields.keys() >= set(chain.from_iterable(there)):
            return False
        return all(rule.is_plain([each.get(name) for each in there]) for name, rule in self._fields.items())

    def exact(self, value: Any) -> dict[str, Any]:
        """See `Rule.exact`."""
        if not isinstance(value, Mapping):
            raise unfit(value, "is no mapping")
        for name in value:
            if name not in self._fields:
                raise unfit(value, f"has a field {described(name, 60)}, which the struct has not")
        for name in self._required:
            if value.get(name) is None:
                raise unfit(value, f"has no {name!r}, which the type requires")
        return {name: _inside(rule, value.get(name), f"field {name!r}") for name, rule in self._fields.items()}

    def kept(self, value: Any) -> Any:
        """See `Rule.kept`."""
        if not isinstance(value, Mapping):
            return value
        return {name: self._fields[name].kept(each) if name in self._fields else each for name, each in value.items()}


class MapRule(Rule):
    """Of maps: a mapping, or a list of pairs; each key stands there once."""

    holds_mutable = True

    def __init__(self, key: Rule, item: Rule, *, nullable: bool) -> None:
        self._key, self._item, self._nullable = key, item, nullable

    def is_plain(self, values: Collection[Any]) -> bool:
        """See `Rule.is_plain`."""
        if not self._nullable or not {dict, _NONE}.issuperset(map(type, values)):
            return False
        there = [value for value in values if value is not None]
        keys = list(chain.from_iterable(there))
        items = list(chain.from_iterable(map(dict.values, there)))
        return None not in keys and self._key.is_plain(keys) and self._item.is_plain(items)

    def exact(self, value: Any) -> list[tuple[Any, Any]]:
        """See `Rule.exact`."""
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, (list, tuple)) or not all(isinstance(e, (tuple, list)) and len(e) == 2 for e in pairs):
            raise unfit(value, "is no mapping, and no list of pairs")
        found: dict[Any, Any] = {}
        for key, each in pairs:
            stored = _inside(self._key, key, "a key")
            if stored is None:
                raise unfit(value, "has the key None")
            if stored in found:
                raise unfit(value, f"has the key {described(key, 60)} twice")
            found[stored] = _inside(self._item, each, f"the value of {described(key, 60)}")
            if found[stored] is None and not self._nullable:
                raise unfit(value, "holds None, which the type excludes")
        return list(found.items())

    def kept(self, value: Any) -> Any:
        """See `Rule.kept`."""
        if isinstance(value, Mapping):
            return {key: self._item.kept(each) for key, each in value.items()}
        if not isinstance(value, (list, tuple)):
            return value
        pairs: Sequence[Any] = [tuple(pair) if isinstance(pair, list) else pair for pair in value]
        return [(p[0], self._item.kept(p[1])) if isinstance(p, tuple) and len(p) == 2 else p for p in pairs]


def _inside(rule: Rule, value: Any, place: str) -> Any:
    try:
        return rule.stored(value)
    except UnfitError as error:
        raise UnfitError(f"{place}: {error}") from None


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
