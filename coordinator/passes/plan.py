"""Compiles routes into ONE DataFrame whose single pass feeds every sink.

The wide frame holds every column that any sink takes (plain columns once, however many sinks share them) and one
digest column per route: the 64-bit xxHash of the row as that sink gets it, NULL when the row is not routed there.
Selection by `where` thus costs a null bitmap. Expressions are evaluated only for the rows of their own route, as
`filter` before `select` would do. The hash is computed by Spark's generated code; executors only add it up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from tpc.coordinator.passes.routes import Route, Writing
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Spark's own formats end at milliseconds."""


@dataclass(frozen=True)
class RoutePlan:
    """Where a sink finds its rows in the wide frame: the digest column, and (wide name, sink's name) per column."""

    sink: str
    writing: int
    digest: str
    columns: tuple[tuple[str, str], ...]
    exact: bool
    """Whether equal digests mean equal rows; with floats left out they do not."""


@dataclass(frozen=True)
class PassPlan:
    """The wide frame and how to take it apart again."""

    frame: DataFrame
    routes: tuple[RoutePlan, ...]
    schemas: Mapping[str, pyarrow.Schema]
    digests_by_writing: tuple[tuple[str, ...], ...]
    """Per DataFrame written: its routes' digest columns; a row with all of them NULL was taken by no sink."""
    partitioned: bool


def compile_plan(writings: Sequence[Writing]) -> PassPlan:
    """The plan for these writings. Raises `ConfigurationError` for what cannot be one pass."""
    if not writings or not any(writing.routes for writing in writings):
        raise ConfigurationError("the pipeline writes nothing", remedy="pipeline.write(df).to(sink)")
    if not all(writing.routes for writing in writings):
        raise ConfigurationError("a DataFrame is written to no sink", remedy="pipeline.write(df).to(sink)")
    partitioned = any(writing.partition_by for writing in writings)
    if partitioned and len(writings) > 1:
        raise ConfigurationError(
            "partition_by= works with one DataFrame",
            remedy="union the DataFrames before pipeline.write(..., partition_by=...).",
        )
    compiled = [_Compiled(index, writing) for index, writing in enumerate(writings)]
    frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), (c.frame for c in compiled))
    routes = tuple(route for c in compiled for route in c.routes)
    return PassPlan(
        frame=frame,
        routes=routes,
        schemas=_schemas(frame, routes),
        digests_by_writing=tuple(tuple(route.digest for route in c.routes) for c in compiled),
        partitioned=partitioned,
    )


class _Compiled:
    """One writing's part of the wide frame."""

    def __init__(self, index: int, writing: Writing) -> None:
        self.index = index
        self.source = writing.frame
        self.wide: dict[str, Column] = {}
        self.flags: dict[str, Column] = {}
        self.plain: dict[str, str] = {}
        conditions = _conditions(writing.routes)
        parts = [
            self._add(number, route, condition)
            for number, (route, condition) in enumerate(zip(writing.routes, conditions, strict=True))
        ]
        source = writing.frame.repartition(*writing.partition_by) if writing.partition_by else writing.frame
        selected = source.select(
            *(column.alias(name) for name, column in self.wide.items()),
            *(flag.alias(name) for name, flag in self.flags.items()),
        )
        self.routes = tuple(
            RoutePlan(
                route.sink.name,
                index,
                f"digest_{index}_{number}",
                columns,
                route.exact_floats or not any(_has_floats(selected.schema[wide].dataType) for wide, _ in columns),
            )
            for number, (route, columns) in enumerate(zip(writing.routes, parts, strict=True))
        )
        self.frame = selected.select(
            *self.wide,
            *(
                _digest(selected.schema, plan, f"flag_{index}_{number}", exact_floats=route.exact_floats)
                for number, (plan, route) in enumerate(zip(self.routes, writing.routes, strict=True))
            ),
        )

    def _add(self, number: int, route: Route, condition: Column) -> tuple[tuple[str, str], ...]:
        self.flags[f"flag_{self.index}_{number}"] = condition
        columns = []
        for position, (output, expression) in enumerate(self._expanded(route)):
            if isinstance(expression, str):
                columns.append((self._plain_column(expression), output))
            else:
                name = f"column_{self.index}_{number}_{position}"
                self.wide[name] = _when(condition, expression)
                columns.append((name, output))
        return tuple(columns)

    def _plain_column(self, name: str) -> str:
        from pyspark.sql import functions as F

        if name not in self.plain:
            self.plain[name] = f"column_{self.index}_{len(self.plain)}"
            self.wide[self.plain[name]] = F.col(f"`{name}`")
        return self.plain[name]

    def _expanded(self, route: Route) -> list[tuple[str, str | Column]]:
        """(the sink's column name, a plain column's name or an expression) for each column of a route's select."""
        from pyspark.sql import functions as F

        known = set(self.source.columns)
        expanded: list[tuple[str, str | Column]] = []
        for item in route.select:
            names = self.source.select(item).columns
            if not isinstance(item, str):
                if len(names) > 1:
                    raise ConfigurationError(
                        f"one expression stands for several columns: {names}",
                        sink=route.sink.name,
                        remedy="select '*' or 'column.*' as a string, or each column by itself.",
                    )
                expanded.append((names[0], item))
            elif item in known:
                expanded.append((item, item))
            elif item == "*":
                expanded += [(name, name) for name in names]
            elif item.endswith(".*"):
                expanded += [(name, F.col(f"{item[:-1]}`{name}`")) for name in names]
            else:
                expanded.append((names[0], F.col(item)))
        outputs = [output for output, _ in expanded]
        if len(set(outputs)) != len(outputs):
            raise ConfigurationError(
                f"two columns of one name are selected: {outputs}", sink=route.sink.name, remedy="use alias()."
            )
        return expanded


def _conditions(routes: Iterable[Route]) -> list[Column]:
    from pyspark.sql import functions as F

    conditions: list[Column] = []
    for route in routes:
        if route.otherwise:
            taken = reduce(lambda a, b: a | b, conditions, F.lit(False))
            conditions.append(~taken)
        elif route.where is None:
            conditions.append(F.lit(True))
        else:
            where = F.expr(route.where) if isinstance(route.where, str) else route.where
            conditions.append(F.coalesce(where, F.lit(False)))
    return conditions


def _when(condition: Column, expression: Column) -> Column:
    """The expression where the row is routed, else NULL: with ANSI casts it may fail on other rows."""
    from pyspark.sql import functions as F

    return F.when(condition, expression)


def _digest(schema: StructType, route: RoutePlan, flag: str, *, exact_floats: bool) -> Column:
    """The row's hash as the sink gets it, NULL when not routed.

    xxHash skips NULLs, so their positions enter as flags, inside a value by its JSON; floats, also inside a value,
    enter as "is there" unless they are exact.
    """
    from pyspark.sql import functions as F

    hashed: list[Column] = []
    for wide, _ in route.columns:
        field = schema[wide]
        hashed.append(_canonical(F.col(wide), field.dataType, exact_floats=exact_floats))
        if field.nullable:
            hashed.append(F.col(wide).isNull())
    return F.when(F.col(flag), F.xxhash64(*hashed)).alias(route.digest)


def _canonical(column: Column, kind: DataType, *, exact_floats: bool) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    if not exact_floats and _has_floats(kind):
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


def _has_floats(kind: DataType) -> bool:
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


def _schemas(frame: DataFrame, routes: Sequence[RoutePlan]) -> dict[str, Any]:
    """The Arrow schema each sink gets; two writings that feed one sink must agree."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructField, StructType

    schemas: dict[str, Any] = {}
    for route in routes:
        fields = [StructField(output, frame.schema[wide].dataType, nullable=True) for wide, output in route.columns]
        schema = to_arrow_schema(StructType(fields))
        known = schemas.setdefault(route.sink, schema)
        if known != schema:
            raise ConfigurationError(
                f"two DataFrames write other columns to one sink: {known.names} and {schema.names}",
                sink=route.sink,
                remedy="select the same columns, in the same order and of the same types, in both.",
            )
    return schemas
