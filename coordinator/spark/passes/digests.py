"""The digest of a row as a column: a 64-bit hash of its canonical form, which Spark's generated code computes.

Equal rows have equal digests, whatever their order, their partition, or the form in which a value happens to be held.
Floats are left out unless the user says that they are exact: a replay may add them up in another order.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from tpc.coordinator.spark.passes.projection import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

KIND = "xxhash64-2"
"""Of these digests, in manifests; to be changed with whatever makes another digest of an equal row."""

# A setting of the session says how an apostrophe is written within a text: here it is a number.
_QUOTE = "chr(39)"
_JSON = (
    f"map('timestampNTZFormat', concat('yyyy-MM-dd', {_QUOTE}, 'T', {_QUOTE}, 'HH:mm:ss.SSSSSS'), "
    "'ignoreNullFields', 'true')"
)
"""Spark's own format ends at milliseconds, and whether NULLs are written is a setting of the session."""


def digest_sql(columns: Iterable[tuple[str, StructField]], flag: str, *, exact_floats: bool) -> str:
    """The hash of a row's `columns` as its sink gets them, NULL where `flag` is not true: all of it SQL.

    Each column is SQL and what Spark knows of it. xxHash skips NULLs, so their positions enter as flags, inside a value
    by its JSON; floats, also inside a value, enter as "is there" unless they are exact. Instants and dates enter that
    JSON as numbers: how Spark writes them depends on the session's time zone and settings, and another session may
    compute the replay.
    """
    hashed: list[str] = []
    for column, field in columns:
        hashed.append(_canonical(column, field.dataType, exact_floats=exact_floats))
        if field.nullable:
            hashed.append(f"{column} IS NULL")
    return f"CASE WHEN {flag} THEN xxhash64({', '.join(hashed)}) END"


def _canonical(column: str, kind: DataType, *, exact_floats: bool) -> str:
    from pyspark.sql.types import ArrayType, DateType, MapType, StructType, TimestampType

    is_nested = isinstance(kind, (ArrayType, MapType, StructType))
    if not exact_floats and has_floats(kind):
        settled = _settled(column, kind, exact_floats=exact_floats)
        return _as_json(settled) if is_nested else settled
    as_json = _contains(kind, (MapType,)) or _hides_nulls(kind)
    if as_json and _contains(kind, (DateType, TimestampType)):
        return _as_json(_settled(column, kind, exact_floats=exact_floats))
    if isinstance(kind, MapType):
        return _as_json(_entries(column))
    return _as_json(column) if as_json else column


def _as_json(value: str) -> str:
    return f"to_json({value}, {_JSON})"


def _settled(column: str, kind: DataType, *, exact_floats: bool, depth: int = 0) -> str:
    """The value with numbers in the place of instants and dates, with "is there" in that of floats that are not exact.

    NULL where it is NULL. `depth` keeps the names of elements within elements apart.
    """
    from pyspark.sql.types import (
        ArrayType,
        DateType,
        DoubleType,
        FloatType,
        MapType,
        StructField,
        StructType,
        TimestampType,
    )

    settled = partial(_settled, exact_floats=exact_floats, depth=depth + 1)
    element = f"tpc_element_{depth}"
    if isinstance(kind, (FloatType, DoubleType)):
        return column if exact_floats else f"({column} IS NOT NULL)"
    if isinstance(kind, (TimestampType, DateType)):
        return f"{'unix_micros' if isinstance(kind, TimestampType) else 'unix_date'}({column})"
    if isinstance(kind, StructType):
        fields = [
            f"{settled(f'{column}.{quoted(field.name)}', field.dataType)} AS {quoted(field.name)}"
            for field in kind.fields
        ]
        return f"CASE WHEN {column} IS NOT NULL THEN struct({', '.join(fields)}) END"
    if isinstance(kind, ArrayType):
        return f"transform({column}, {element} -> {settled(element, kind.elementType)})"
    if isinstance(kind, MapType):
        entry = StructType([StructField("key", kind.keyType), StructField("value", kind.valueType)])
        return f"transform({_entries(column)}, {element} -> {settled(element, entry)})"
    return column


def _entries(column: str) -> str:
    """A map's entries in the order of its keys; their values may be of a type without an order."""
    one, other = "tpc_one.key", "tpc_other.key"
    order = f"CASE WHEN {one} < {other} THEN -1 WHEN {one} > {other} THEN 1 ELSE 0 END"
    return f"array_sort(map_entries({column}), (tpc_one, tpc_other) -> {order})"


def _hides_nulls(kind: DataType) -> bool:
    """Whether a value may hold a NULL inside, which its hash would skip: [1, NULL] and [NULL, 1] would be one."""
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(kind, ArrayType):
        return kind.containsNull or _hides_nulls(kind.elementType)
    return isinstance(kind, StructType) and any(f.nullable or _hides_nulls(f.dataType) for f in kind.fields)


def has_floats(kind: DataType) -> bool:
    """Whether a value of this type is, or holds, a floating-point number."""
    from pyspark.sql.types import DoubleType, FloatType

    return _contains(kind, (FloatType, DoubleType))


def _contains(kind: DataType, wanted: tuple[type[DataType], ...]) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, wanted):
        return True
    if isinstance(kind, ArrayType):
        return _contains(kind.elementType, wanted)
    if isinstance(kind, MapType):
        return _contains(kind.keyType, wanted) or _contains(kind.valueType, wanted)
    return isinstance(kind, StructType) and any(_contains(field.dataType, wanted) for field in kind.fields)
