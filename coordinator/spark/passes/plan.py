"""Compiles routes into ONE DataFrame whose single pass feeds every sink.

The wide frame holds every column that any sink takes (plain columns once, however many sinks share them) and one digest
column per route: the 64-bit xxHash of the row as that sink gets it, NULL when the row is not routed there. Selection by
`where` thus costs a null bitmap. Expressions are evaluated only for the rows of their own route, as `filter` before
`select` would do. The hash is computed by Spark's generated code; executors only add it up.

One row, one evaluation: a condition may come out otherwise each time it is computed (`rand()`, a Python function), so
it is computed once, and guards, `otherwise`, digests and counts are made of its value. So is what is selected.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from tpc.coordinator.kernel.feeding.context import RoutePlan
from tpc.coordinator.kernel.feeding.refused_rows import LetterWork
from tpc.coordinator.spark.passes.arrow_schema import arrow_schema
from tpc.coordinator.spark.passes.column_checks import (
    check_condition,
    check_kept_types,
    check_order_types,
    check_own_row,
    checked_expression,
    partition_columns,
    spark_refusals_named,
)
from tpc.coordinator.spark.passes.dead_letters import DeadLetters
from tpc.coordinator.spark.passes.digests import digest_sql, has_floats
from tpc.coordinator.spark.passes.projection import projected, quoted, quoted_path
from tpc.coordinator.spark.passes.routes import Route, Writing
from tpc.errors import ConfigurationError
from tpc.schemas import Columns

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class PassPlan:
    """The wide frame and how to take it apart again."""

    frame: DataFrame
    routes: tuple[RoutePlan, ...]
    schemas: Mapping[str, pyarrow.Schema]
    columns: Mapping[str, Columns]
    """Per sink the names and Spark's types of its columns, as they go on record."""
    digests_by_writing: tuple[tuple[str, ...], ...]
    """Per DataFrame written: its routes' digest columns; a row with all of them NULL was taken by no sink."""
    partitioned: bool
    order: tuple[str, ...] = ()
    """The columns of the wide frame by which each partition is sorted."""
    letters: LetterWork | None = None
    """How rows that a sink refuses become dead letters, where there are some."""
    unguarded: tuple[DataFrame, ...] = ()
    """Per DataFrame written: its columns and conditions as the routes say them, for checks of what is asked for."""


def compile_plan(writings: Sequence[Writing], letters: DeadLetters | None = None) -> PassPlan:
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
    sinks = ", ".join(route.sink.name for writing in writings for route in writing.routes)
    with spark_refusals_named(f"the write to {sinks}", "", "correct the columns that Spark names."):
        compiled = [_Compiled(index, writing) for index, writing in enumerate(writings)]
    frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), (c.frame for c in compiled))
    routes = tuple(route for c in compiled for route in c.routes)
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    schemas = _schemas(kinds, routes)
    columns = {route.sink: _columns(kinds, route) for route in routes}
    if letters is not None:
        letters.refuse_shared(columns)
        schemas[letters.sink.name] = letters.schema()
        columns[letters.sink.name] = tuple((name, "string") for name in letters.select.values())
    return PassPlan(
        frame=frame,
        routes=routes,
        schemas=schemas,
        columns=columns,
        letters=None if letters is None else letters.work(writings, exact=all(route.exact for route in routes)),
        digests_by_writing=tuple(tuple(route.digest for route in c.routes) for c in compiled),
        partitioned=partitioned,
        order=compiled[0].order,
        unguarded=tuple(c.unguarded for c in compiled),
    )


class _Compiled:
    """One writing's part of the wide frame: on its source three projections, of conditions, of what is computed, and of
    all columns and digests.
    """

    def __init__(self, index: int, writing: Writing) -> None:
        from pyspark.sql import functions as F

        self.index = index
        self.source = writing.frame
        self.wide: dict[str, str] = {}
        """By its name in the wide frame, the SQL of each column."""
        self.computed: dict[str, tuple[Column, str]] = {}
        """Expressions of routes, by names that the source has not, each with its route's flag."""
        self.plain: dict[str, str] = {}
        self._computed_name = unused_name("tpc_computed", writing.frame)
        source = spread(writing.frame, writing.partition_by)
        check_order(writing.order_by, writing.partition_by, self.source.columns)
        check_order_types(self.source, writing.order_by)
        conditions, flags = conditions_of(writing)
        # A barrier below too: a condition and the column of the source that it reads would else be computed separately.
        once = unused_name("tpc_once", source)
        settled = source.select("*", (F.spark_partition_id() >= 0).alias(once))
        decided = settled.select(
            "*", *((computed_once(condition) & F.col(once)).alias(name) for name, condition in conditions.items())
        )
        parts = [self._add(number, route, flags[number]) for number, route in enumerate(writing.routes)]
        self.order = tuple(self._plain_column(quoted(name)) for name in writing.order_by)
        columns_sql = [f"{sql} AS {name}" for name, sql in self.wide.items()]
        asked = self.source.select(
            "*",
            *(column.alias(name) for name, (column, _) in self.computed.items()),
            *(condition.alias(name) for name, condition in conditions.items()),
        )
        self.unguarded = projected(asked, [*columns_sql, *conditions])
        for route, columns in zip(writing.routes, parts, strict=True):
            check_kept_types(self.unguarded, columns, route.sink.name)
        fields = {field.name: field for field in self.unguarded.schema.fields}
        self.routes = tuple(
            RoutePlan(
                route.sink.name,
                index,
                f"digest_{index}_{number}",
                columns,
                route.exact_floats or not any(has_floats(fields[wide].dataType) for wide, _ in columns),
            )
            for number, (route, columns) in enumerate(zip(writing.routes, parts, strict=True))
        )
        digests_sql = [
            digest_sql(
                [(self.wide[wide], fields[wide]) for wide, _ in plan.columns], flag, exact_floats=route.exact_floats
            )
            for plan, flag, route in zip(self.routes, flags, writing.routes, strict=True)
        ]
        named = [f"{digest} AS {plan.digest}" for digest, plan in zip(digests_sql, self.routes, strict=True)]
        self.frame = projected(self._with_computed(decided), [*columns_sql, *named])

    def _add(self, number: int, route: Route, flag: str) -> tuple[tuple[str, str], ...]:
        columns = []
        for position, (output, expression) in enumerate(self._expanded(route)):
            if isinstance(expression, str):
                columns.append((self._plain_column(expression), output))
            else:
                name, made = f"column_{self.index}_{number}_{position}", f"{self._computed_name}_{number}_{position}"
                self.wide[name] = made
                self.computed[made] = (expression, flag)
                columns.append((name, output))
        return tuple(columns)

    def _with_computed(self, decided: DataFrame) -> DataFrame:
        """Beside the source's columns what routes compute: NULL for rows of others, where an ANSI cast may fail."""
        from pyspark.sql import functions as F

        guarded = [
            F.when(computed_once(F.expr(flag)), column).alias(name) for name, (column, flag) in self.computed.items()
        ]
        return decided.select("*", *guarded) if guarded else decided

    def _plain_column(self, sql: str) -> str:
        """The name in the wide frame of what needs no guard, however many routes take it."""
        if sql not in self.plain:
            self.plain[sql] = f"column_{self.index}_{len(self.plain)}"
            self.wide[self.plain[sql]] = sql
        return self.plain[sql]

    def _expanded(self, route: Route) -> list[tuple[str, str | Column]]:
        """(the sink's column name, SQL of a column or field, or an expression) for each column of a route's select."""
        known = set(self.source.columns)
        expanded: list[tuple[str, str | Column]] = []
        computed = [(f"select={item!r}", item) for item in route.select if not isinstance(item, str)]
        for what, expression in computed:
            checked_expression(self.source, expression, what, route.sink.name)
        check_own_row(self.source, computed, route.sink.name)
        for item in route.select:
            if isinstance(item, str) and item in known:
                expanded.append((item, quoted(item)))
                continue
            names = checked_expression(self.source, item, f"select={item!r}", route.sink.name).columns
            if not isinstance(item, str):
                if len(names) > 1:
                    raise ConfigurationError(
                        f"one expression stands for several columns: {names}",
                        sink=route.sink.name,
                        remedy="select '*' or 'column.*' as a string, or each column by itself.",
                    )
                expanded.append((names[0], item))
            elif item == "*":
                expanded += [(name, quoted(name)) for name in names]
            elif item.endswith(".*"):
                path = quoted_path(item[:-2])
                expanded += [(name, f"{path}.{quoted(name)}") for name in names]
            else:
                expanded.append((names[0], quoted_path(item)))
        outputs = [output for output, _ in expanded]
        if len(set(outputs)) != len(outputs):
            raise ConfigurationError(
                f"two columns of one name are selected: {outputs}", sink=route.sink.name, remedy="use alias()."
            )
        return expanded


def _columns(kinds: Mapping[str, DataType], route: RoutePlan) -> Columns:
    return tuple((output, kinds[wide].simpleString()) for wide, output in route.columns)


def _schemas(kinds: Mapping[str, DataType], routes: Sequence[RoutePlan]) -> dict[str, Any]:
    """The Arrow schema each sink gets; two writings that feed one sink must agree."""
    from pyspark.sql.types import StructField, StructType

    schemas: dict[str, Any] = {}
    for route in routes:
        fields = [StructField(output, kinds[wide], nullable=True) for wide, output in route.columns]
        schema = arrow_schema(StructType(fields))
        known = schemas.setdefault(route.sink, schema)
        if known != schema:
            raise ConfigurationError(
                f"two DataFrames write other columns to one sink: {known.names} and {schema.names}",
                sink=route.sink,
                remedy="select the same columns, in the same order and of the same types, in both.",
            )
    return schemas


# The conditions of routes as columns: each computed once per row, wherever its value is used.


def conditions_of(writing: Writing) -> tuple[dict[str, Column], list[str]]:
    """The conditions to be computed, each once, by the names of their columns; and per route its flag, SQL of these.

    One `Column` object, or one text, that is in several routes is one condition.
    """
    prefix = unused_name("tpc_condition", writing.frame)
    names: dict[str | int | None, str] = {}
    conditions: dict[str, Column] = {}
    flags: list[str] = []
    for route in writing.routes:
        if route.otherwise:
            flags.append(f"NOT ({' OR '.join(['false', *flags])})")
            continue
        key = route.where if route.where is None or isinstance(route.where, str) else id(route.where)
        if key not in names:
            names[key] = f"{prefix}_{len(names)}"
            conditions[names[key]] = _checked_condition(writing.frame, route)
        flags.append(names[key])
    return conditions, flags


def unused_name(name: str, frame: DataFrame) -> str:
    """`name`, made longer until no column's name begins with it; Spark's names know no upper and lower case."""
    while any(column.lower().startswith(name) for column in frame.columns):
        name += "_"
    return name


def _checked_condition(frame: DataFrame, route: Route) -> Column:
    """True or false of each row. Raises `ConfigurationError`."""
    from pyspark.sql import functions as F

    if (where := route.where) is None:
        return F.lit(True)
    with spark_refusals_named(f"where={where!r}", route.sink.name, "write a condition of SQL: where='amount > 0'."):
        condition = F.expr(where) if isinstance(where, str) else where
    check_condition(frame, where, condition, route.sink.name)
    return F.coalesce(condition, F.lit(False))


def computed_once(condition: Column) -> Column:
    """The condition as something that Spark's optimizer computes where it stands, once, and never copies.

    Expressions that it takes for deterministic it may move into later projections, and copy there (`CollapseProject`):
    so it does with every Python function that is not declared otherwise. The number of the partition (never negative)
    counts as non-deterministic, and so does all that contains it. Such a projection stays as it is.
    """
    from pyspark.sql import functions as F

    return condition & (F.spark_partition_id() >= 0)


# The order in which the rows of an epoch reach the sinks, where the user asks for one.
#
# Spark sorts no stream, so this is in the pass, on the frame of one batch: there the rows of a key are in one
# partition (`partition_by=`), each partition is sorted, and writers take its rows as they come. No second job, no
# further shuffle.


def check_order(order_by: Sequence[str], partition_by: Sequence[str], columns: Collection[str]) -> None:
    """Raises `ConfigurationError` for an order that could not be kept."""
    if not order_by:
        return
    if not partition_by:
        raise ConfigurationError(
            f"order_by={list(order_by)} without partition_by=",
            remedy="name the columns whose equal rows must keep the order: pipeline.write(..., partition_by=...). "
            "Rows of different partitions reach the sinks side by side.",
        )
    unknown = [name for name in order_by if name not in columns]
    if unknown:
        raise ConfigurationError(
            f"order_by= names {unknown}, which are no columns of the DataFrame",
            remedy=f"its columns are {sorted(columns)}; of an expression make a column first, with withColumn().",
        )


def spread(frame: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """`frame` with rows that are equal in these columns in one partition; as it is without any."""
    if not partition_by:
        return frame
    from pyspark.sql import functions as F

    # What Python state functions return cannot be shuffled as it comes (PySpark 4.0: "ColumnarBatchRow cannot be cast
    # to class UnsafeRow"). A column that is computed, and that the optimizer cannot fold, makes rows of it that can.
    computed = unused_name("tpc_spread", frame)
    columns = partition_columns(frame, partition_by)
    rows = frame.withColumn(computed, F.spark_partition_id() >= 0)
    return rows.repartition(*columns, computed).drop(computed)


def in_order(frame: DataFrame, order: Sequence[str], taken: Collection[str]) -> DataFrame:
    """A batch's frame with each partition sorted by the columns `order`, and of all columns those that are `taken`."""
    if not order:
        return frame
    return projected(frame.sortWithinPartitions(*order), [name for name in frame.columns if name in taken])
