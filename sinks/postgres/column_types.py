"""Which Arrow type may go into which SQL type: refused is what COPY must refuse or would silently change.

A type that can hold most values and raises for the rest (a long into `integer`, a long text into `varchar(3)`)
is allowed: the row that does not fit is a `DataError`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

_INTEGERS = frozenset({"int2", "int4", "int8"})
_TEXTS = frozenset({"text", "varchar", "bpchar", "citext"})
_LITERAL_CATEGORIES = frozenset("EGIUV")
"""pg_type.typcategory whose values come as PostgreSQL's own text: enums, geometry, networks, user-defined, bits.

Not "T": an interval is a rule of its own. Not "S" and "Z": `name` and "char" cut what does not fit.
"""
_JSON_REMEDY = "make it a JSON text, for a json, jsonb or text column."
_DIGITS = {"s": 0, "ms": 3, "us": 6}


@dataclass(frozen=True)
class SqlType:
    """A column's type: pg_type's name and category of the base type (of a domain), the modifier, and its text.

    `collation` is SQL, None where the column has that of its type.
    """

    name: str
    category: str
    modifier: int
    text: str
    collation: str | None = None

    @property
    def declared(self) -> str:
        """The type as a column is declared with it, in SQL."""
        return self.text if self.collation is None else f"{self.text} COLLATE {self.collation}"

    @property
    def precision_and_scale(self) -> tuple[int, int] | None:
        """Of a numeric(p, s); None where none was declared."""
        if self.modifier < 0:
            return None
        scale = (self.modifier - 4) & 0x7FF
        return ((self.modifier - 4) >> 16) & 0xFFFF, scale - 0x800 if scale & 0x400 else scale

    @property
    def length(self) -> int | None:
        """Of a varchar(n) or char(n), in characters; None where none was declared."""
        return self.modifier - 4 if self.name in ("varchar", "bpchar") and self.modifier >= 4 else None


def remedy_for(arrow: pa.DataType, sql: SqlType) -> str | None:
    """The remedy if `arrow` cannot go into `sql` unchanged; None if it can."""
    if pa.types.is_dictionary(arrow):
        return remedy_for(arrow.value_type, sql)
    if pa.types.is_null(arrow):
        return None
    if pa.types.is_duration(arrow) or pa.types.is_interval(arrow):
        return "cast the value to string and make the column interval or text."
    for belongs, remedy_of in _RULES:
        if belongs(arrow):
            return remedy_of(arrow, sql)
    return _JSON_REMEDY


def remedy_for_sum(arrow: pa.DataType, sql: SqlType) -> str | None:
    """As `remedy_for`, of sums, which may have a wider type than their rows: a column of floats rounds sums anyway."""
    is_whole = pa.types.is_integer(arrow) or (pa.types.is_decimal(arrow) and arrow.scale == 0)
    if sql.name in ("float4", "float8") and (is_whole or pa.types.is_floating(arrow)):
        return None
    return remedy_for(arrow, sql)


def _boolean(_arrow: pa.DataType, sql: SqlType) -> str | None:
    return None if sql.name == "bool" else "make the column boolean, or cast the value."


def _integer(arrow: pa.DataType, sql: SqlType) -> str | None:
    bits = arrow.bit_width + (1 if pa.types.is_unsigned_integer(arrow) else 0)
    exact_in = {"float4": 25, "float8": 54}  # bits of the significand, and the sign
    if sql.name in _INTEGERS or bits <= exact_in.get(sql.name, 0):
        return None
    if sql.name == "numeric":
        declared = sql.precision_and_scale
        return None if declared is None or declared[1] >= 0 else "declare the column numeric without rounding."
    return "make the column bigint or numeric, or cast the value."


def _float(arrow: pa.DataType, sql: SqlType) -> str | None:
    if sql.name == "float8" or (sql.name == "float4" and arrow.bit_width <= 32):
        return None
    return "make the column double precision, or cast the value to the column's type, which says how to round."


def _decimal(arrow: pa.DataType, sql: SqlType) -> str | None:
    if sql.name == "numeric":
        declared = sql.precision_and_scale
        if declared is None or declared[1] >= arrow.scale:
            return None
        return f"give the column a scale of at least {arrow.scale}, or cast the value, which says how to round."
    if sql.name in _INTEGERS and arrow.scale == 0:
        return None
    return "make the column numeric, or cast the value."


def _text(_arrow: pa.DataType, sql: SqlType) -> str | None:
    if sql.name in _TEXTS:
        return None
    if sql.name == "interval":
        return None if sql.modifier < 0 else "declare it interval, without fields and precision: it would round."
    if sql.name != "bytea" and sql.category in _LITERAL_CATEGORIES:
        return None
    return "cast the value to the column's type, or make the column text."


def _binary(_arrow: pa.DataType, sql: SqlType) -> str | None:
    return None if sql.name == "bytea" else "make the column bytea, or decode the value to a string."


def _date(_arrow: pa.DataType, sql: SqlType) -> str | None:
    return None if sql.name == "date" else "make the column date, or cast the value."


def _time(arrow: pa.DataType, sql: SqlType) -> str | None:
    if sql.name != "time":
        return "make the column time, or cast the value."
    return _fraction(arrow, sql)


def _timestamp(arrow: pa.DataType, sql: SqlType) -> str | None:
    wanted = "timestamp" if arrow.tz is None else "timestamptz"
    if sql.name == wanted:
        return _fraction(arrow, sql)
    if wanted == "timestamptz":
        return "make the column timestamptz, or write the value without a time zone, as it is in one zone."
    return "make the column timestamp (without time zone), or write the value with a time zone."


def _fraction(arrow: pa.DataType, sql: SqlType) -> str | None:
    digits = _DIGITS.get(arrow.unit)
    if digits is not None and (sql.modifier < 0 or sql.modifier >= digits):
        return None
    return "PostgreSQL would round the fraction of the second: round the value yourself, or declare more digits."


_RULES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, SqlType], str | None]], ...] = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t), _text),
    (
        lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t),
        _binary,
    ),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_timestamp, _timestamp),
)
