"""The conditions of routes as columns: each computed once per row, wherever its value is used.

What is made of the values (guards, digests) stands in `plan`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from tpc.coordinator.spark.passes.routes import Writing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def conditions_of(writing: Writing) -> tuple[dict[str, Column], list[Column]]:
    """The conditions to be computed, each once, by the names of their columns; and per route its flag, made of those.

    One `Column` object, or one text, that stands in several routes is one condition.
    """
    from pyspark.sql import functions as F

    prefix = unused_name("tpc_condition", writing.frame)
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


def unused_name(name: str, frame: DataFrame) -> str:
    """`name`, made longer until no column's name begins with it; Spark's names know no upper and lower case."""
    while any(column.lower().startswith(name) for column in frame.columns):
        name += "_"
    return name


def _as_condition(where: str | Column | None) -> Column:
    from pyspark.sql import functions as F

    if where is None:
        return F.lit(True)
    return F.coalesce(F.expr(where) if isinstance(where, str) else where, F.lit(False))


def computed_once(condition: Column) -> Column:
    """The condition as something that Spark's optimizer computes where it stands, once, and never copies.

    Expressions that it takes for deterministic it may move into later projections, and copy there (`CollapseProject`):
    so it does with every Python function that is not declared otherwise. The number of the partition (never negative)
    counts as non-deterministic, and so does all that contains it. Such a projection stays as it is.
    """
    from pyspark.sql import functions as F

    return condition & (F.spark_partition_id() >= 0)
