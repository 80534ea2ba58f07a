"""The digest of a row as a column: a 64-bit hash of its canonical form, which Spark's generated code computes.

Equal rows have equal digests, whatever their order, their partition, or the form in which a value happens to be held.
Floats are left out unless the user says that they are exact: a replay may add them up in another order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

KIND = "xxhash64"
"""Of these digests, in manifests; to be changed with whatever makes another digest of an equal row."""

_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark's own formats end at milliseconds."""


def digest_column(schema: StructType, columns: Iterable[str], flag: Column, *, exact_floats: bool) -> Column:
    """The hash of a row's `columns` as its sink gets them, NULL where `flag` is not true.

    xxHash skips NULLs, so their positions enter as flags, inside a value by its JSON; floats, also inside a value,
    enter as "is there" unless they are exact.
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
    from pyspark.sql.types import ArrayType, MapType, StructType

    if not exact_floats and has_floats(kind):
        column = _without_floats(column, kind)
        return F.to_json(column, _JSON) if _contains(kind, (ArrayType, MapType, StructType)) else column
    if isinstance(kind, MapType):
        return F.to_json(F.array_sort(F.map_entries(column), _by_key), _JSON)
    if _contains(kind, (MapType,)) or _hides_nulls(kind):
        return F.to_json(column, _JSON)
    return column


def _without_floats(column: Column, kind: DataType) -> Column:
    """The value with "is there" in the place of every float; NULL where it is NULL."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructField, StructType

    if isinstance(kind, (FloatType, DoubleType)):
        return column.isNotNull()
    if isinstance(kind, StructType):
        fields = [_without_floats(column[field.name], field.dataType).alias(field.name) for field in kind.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda element: _without_floats(element, kind.elementType))
    if isinstance(kind, MapType):
        entry = StructType([StructField("key", kind.keyType), StructField("value", kind.valueType)])
        entries = F.array_sort(F.map_entries(column), _by_key)
        return F.transform(entries, lambda one: _without_floats(one, entry))
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
