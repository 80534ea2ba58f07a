"""Compiles routes into ONE DataFrame whose single pass feeds every sink.

The wide frame holds every column that any sink takes (plain columns once, however many sinks share them) and one
digest column per route: the 64-bit xxHash of the row as that sink gets it, NULL when the row is not routed there.
Selection by `where` thus costs a null bitmap. Expressions are evaluated only for the rows of their own route, as
`filter` before `select` would do. The hash is computed by Spark's generated code; executors only add it up.

One row, one evaluation: a condition may come out otherwise each time it is computed (`rand()`, a Python function), so
it is computed once, and guards, `otherwise`, digests and counts are made of its value. So is what is selected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    unguarded: tuple[DataFrame, ...] = ()
    """Per DataFrame written: its columns and conditions as the routes say them, for checks of what is asked for."""


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
        unguarded=tuple(c.unguarded for c in compiled),
    )


class _Compiled:
    """One writing's part of the wide frame: on its source three projections, of conditions, columns and digests."""

    def __init__(self, index: int, writing: Writing) -> None:
        from pyspark.sql import functions as F

        self.index = index
        self.source = writing.frame
        self.wide: dict[str, Column] = {}
        self.guards: dict[str, Column] = {}
        self.plain: dict[str, str] = {}
        source = writing.frame.repartition(*writing.partition_by) if writing.partition_by else writing.frame
        conditions, flags = _conditions(writing)
        # A barrier below too: a condition and the column of the source that it reads would else be computed separately.
        once = _unused_name("tpc_once", source)
        settled = source.select("*", (F.spark_partition_id() >= 0).alias(once))
        decided = settled.select(
            "*", *((_once(condition) & F.col(once)).alias(name) for name, condition in conditions.items())
        )
        parts = [self._add(number, route, flags[number]) for number, route in enumerate(writing.routes)]
        selected = decided.select(*(self._guarded(name) for name in self.wide), *conditions)
        expressions = {**self.wide, **conditions}
        self.unguarded = self.source.select(*(column.alias(name) for name, column in expressions.items()))
        self.routes = tuple(
            RoutePlan(
                route.sink.name,
                index,
                f"digest_{index}_{number}",
                columns,
                route.exact_floats or not any(_has_floats(self.unguarded.schema[wide].dataType) for wide, _ in columns),
            )
            for number, (route, columns) in enumerate(zip(writing.routes, parts, strict=True))
        )
        self.frame = selected.select(
            *self.wide,
            *(
                _digest(self.unguarded.schema, plan, flag, exact_floats=route.exact_floats)
                for plan, flag, route in zip(self.routes, flags, writing.routes, strict=True)
            ),
        )

    def _add(self, number: int, route: Route, flag: Column) -> tuple[tuple[str, str], ...]:
        columns = []
        for position, (output, expression) in enumerate(self._expanded(route)):
            if isinstance(expression, str):
                columns.append((self._plain_column(expression), output))
            else:
                name = f"column_{self.index}_{number}_{position}"
                self.wide[name] = expression
                self.guards[name] = flag
                columns.append((name, output))
        return tuple(columns)

    def _guarded(self, name: str) -> Column:
        """A column of the wide frame. Computed ones are NULL for other rows: with ANSI casts they may fail there."""
        from pyspark.sql import functions as F

        column = self.wide[name]
        return (F.when(_once(self.guards[name]), column) if name in self.guards else column).alias(name)

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


def _conditions(writing: Writing) -> tuple[dict[str, Column], list[Column]]:
    """The conditions to be computed, each once, by the names of their columns; and per route its flag, made of those.

    One `Column` object, or one text, that stands in several routes is one condition.
    """
    from pyspark.sql import functions as F

    prefix = _unused_name("tpc_condition", writing.frame)
    names: dict[str | int | None, str] = {}
    conditions: dict[str, Column] = {}
    flags: list[Column] = []
    for route in writing.routes:
        if route.otherwise:
            flags.append(~reduce(lambda a, b: a | b, flags, F.lit(False)))
            continue
        key = route.where if route.where is None or isinstance(route.where, str) else id(route.where)
        if key not in names:
            names[key] = f"{prefix}_{len(names)}"
            conditions[names[key]] = _as_condition(route.where)
        flags.append(F.col(names[key]))
    return conditions, flags


def _unused_name(name: str, frame: DataFrame) -> str:
    """`name`, made longer until no column's name begins with it; Spark's names know no upper and lower case."""
    while any(column.lower().startswith(name) for column in frame.columns):
        name += "_"
    return name


def _as_condition(where: str | Column | None) -> Column:
    from pyspark.sql import functions as F

    if where is None:
        return F.lit(True)
    return F.coalesce(F.expr(where) if isinstance(where, str) else where, F.lit(False))


def _once(condition: Column) -> Column:
    """The condition as something that Spark's optimizer computes where it stands, once, and never copies.

    Expressions that it takes for deterministic it may move into later projections, and copy there (`CollapseProject`):
    so it does with every Python function that is not declared otherwise. The number of the partition (never negative)
    counts as non-deterministic, and so does all that contains it. Such a projection stays as it is.
    """
    from pyspark.sql import functions as F

    return condition & (F.spark_partition_id() >= 0)


def _digest(schema: StructType, route: RoutePlan, flag: Column, *, exact_floats: bool) -> Column:
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
    return F.when(flag, F.xxhash64(*hashed)).alias(route.digest)


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
