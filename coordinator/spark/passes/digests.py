"""The digest of a row as a column: a 64-bit hash of its canonical form, which Spark's generated code computes.

Equal rows have equal digests, whatever their order, their partition, or the form in which a value happens to be held.
Floats are left out unless the user says that they are exact: a replay may add them up in another order.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

KIND = "xxhash64-2"
"""Of these digests, in manifests; to be changed with whatever makes another digest of an equal row."""

_JSON = {"timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS", "ignoreNullFields": "true"}
"""Spark's own format ends at milliseconds, and whether NULLs are written is a setting of the session."""


def digest_column(schema: StructType, columns: Iterable[str], flag: Column, *, exact_floats: bool) -> Column:
    """The hash of a row's `columns` as its sink gets them, NULL where `flag` is not true.

    xxHash skips NULLs, so their positions enter as flags, inside a value by its JSON; floats, also inside a value,
    enter as "is there" unless they are exact. Instants and dates enter that JSON as numbers: how Spark writes them
    depends on the session's time zone and settings, and another session may compute the replay.
    """
    from pyspark.sql import functions as F

    hashed: list[Column] = []
    for wide in columns:
        field = schema[wide]
        hashed.append(_canonical(F.col(wide), field.dataType, exact_floats=exact_floats))
        if field.nullable:
            hashed.append(F.col(wide).isNull())
    return F.when(flag, F.xxhash64(*hashed))


def _canonical(column: Column, kind: DataType, *, exact_floats: bool) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DateType, MapType, StructType, TimestampType

    is_nested = isinstance(kind, (ArrayType, MapType, StructType))
    if not exact_floats and has_floats(kind):
        column = _settled(column, kind, exact_floats=exact_floats)
        return F.to_json(column, _JSON) if is_nested else column
    as_json = _contains(kind, (MapType,)) or _hides_nulls(kind)
    if as_json and _contains(kind, (DateType, TimestampType)):
        return F.to_json(_settled(column, kind, exact_floats=exact_floats), _JSON)
    if isinstance(kind, MapType):
        return F.to_json(F.array_sort(F.map_entries(column), _by_key), _JSON)
    if as_json:
        return F.to_json(column, _JSON)
    return column


def _settled(column: Column, kind: DataType, *, exact_floats: bool) -> Column:
    """The value with numbers in the place of instants and dates, with "is there" in that of floats that are not exact.

    NULL where it is NULL.
    """
    from pyspark.sql import functions as F
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

    settled = partial(_settled, exact_floats=exact_floats)
    if isinstance(kind, (FloatType, DoubleType)):
        return column if exact_floats else column.isNotNull()
    if isinstance(kind, (TimestampType, DateType)):
        return F.unix_micros(column) if isinstance(kind, TimestampType) else F.unix_date(column)
    if isinstance(kind, StructType):
        fields = [settled(column[field.name], field.dataType).alias(field.name) for field in kind.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda element: settled(element, kind.elementType))
    if isinstance(kind, MapType):
        entry = StructType([StructField("key", kind.keyType), StructField("value", kind.valueType)])
        entries = F.array_sort(F.map_entries(column), _by_key)
        return F.transform(entries, lambda one: settled(one, entry))
    return column


def _by_key(one: Column, other: Column) -> Column:
    """Compares entries of a map; their values may be of a type without an order."""
    from pyspark.sql import functions as F

    return F.when(one["key"] < other["key"], -1).when(one["key"] > other["key"], 1).otherwise(0)


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
