"""What a write names of its DataFrame: each column and expression is analyzed by itself, and refused by its parameter.

Spark analyzes a plan as a whole and would say nothing of the sink and the parameter from which an expression comes.
Nothing is executed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpc.coordinator.spark.passes.projection import quoted
from tpc.coordinator.spark.plan_checks import plan_nodes
from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_OTHER_ROWS = {
    "Generate": ("makes several rows of one", "use it before pipeline.write(): df.select('id', explode('items'))"),
    "Aggregate": ("makes one row of several", "aggregate before pipeline.write(), with groupBy()"),
    "Window": ("looks at other rows", "compute it before pipeline.write()"),
    "Expand": ("makes several rows of one", "compute it before pipeline.write()"),
    "Filter": ("leaves rows out", "compute it before pipeline.write(), with withColumn()"),
}
"""Operators that an expression adds to the plan though a route may only compute from one row."""
_UNKEPT = frozenset(("VariantType", "YearMonthIntervalType", "CalendarIntervalType"))
"""By their names, since older versions of PySpark lack some. VARIANT has no hash, the intervals have no Arrow form."""
_UNORDERED = frozenset(("MapType", "VariantType", "CalendarIntervalType"))


@contextmanager
def spark_refusals_named(what: str, sink: str, remedy: str) -> Iterator[None]:
    """What Spark's analysis or parser refuses leaves as a `ConfigurationError` about `what`."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        why = next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)
        raise ConfigurationError(f"{what}: {why}", sink=sink, remedy=remedy) from error


def checked_expression(frame: DataFrame, expression: str | Column, what: str, sink: str) -> DataFrame:
    """`frame` with this expression alone. Raises `ConfigurationError` if Spark refuses it."""
    with spark_refusals_named(what, sink, f"the DataFrame has the columns {_shown(frame)}; {_QUOTES}"):
        return frame.select(expression)


def check_own_row(frame: DataFrame, expressions: Sequence[tuple[str, Column]], sink: str) -> None:
    """Raises `ConfigurationError` for an expression that needs more than its own row, or makes several of it.

    `expressions` are those that Spark takes each by itself, each with what it is called in the error.
    """
    from pyspark.errors import PySparkException

    if not expressions:
        return
    before = _operators(frame)
    try:  # all at once: each look at a plan asks the JVM some times per operator
        added = _operators(frame.select(*(expression for _, expression in expressions))) - before
        if not added.keys() & _OTHER_ROWS.keys():
            return
    except PySparkException:  # two of them do not go together, which only such expressions do
        pass
    for what, expression in expressions:
        added = _operators(frame.select(expression)) - before
        for name, (why, remedy) in _OTHER_ROWS.items():
            if added[name]:
                raise ConfigurationError(
                    f"{what} {why}, and a route takes each row as it is", sink=sink, remedy=f"{remedy}."
                )


_QUOTES = "a name with a dot, a space or a quote is written between backticks."


def _operators(frame: DataFrame) -> Counter[str]:
    return Counter(node.getClass().getSimpleName() for node in plan_nodes(frame._jdf.queryExecution().analyzed()))


def _shown(frame: DataFrame) -> str:
    return ", ".join(map(repr, frame.columns))


def check_condition(frame: DataFrame, where: str | Column, condition: Column, sink: str) -> None:
    """Raises `ConfigurationError` for a condition of a route that cannot be computed, or is neither true nor false."""
    from pyspark.sql.types import BooleanType, NullType

    made = checked_expression(frame, condition, what := f"where={str(where)[:200]!r}", sink)
    check_own_row(frame, [(what, condition)], sink)
    if not isinstance(kind := made.schema.fields[0].dataType, (BooleanType, NullType)):
        raise ConfigurationError(
            f"{what} is of type {kind.simpleString()}, not true or false",
            sink=sink,
            remedy="compare it with something: where='amount > 0'. A function of your own needs a return type: "
            "@udf('boolean').",
        )


def check_kept_types(frame: DataFrame, columns: Sequence[tuple[str, str]], sink: str) -> None:
    """Raises `ConfigurationError` for a type that no sink gets. `columns` are (name in the frame, name in the sink)."""
    try:
        kinds = {field.name: field.dataType for field in frame.schema.fields}
    except ValueError as error:  # PySpark has no class for the type
        raise ConfigurationError(
            f"a column has a type that PySpark does not know: {error}", sink=sink, remedy="leave it out with select=."
        ) from error
    for wide, output in columns:
        if holds(kinds[wide], lambda kind: type(kind).__name__ in _UNKEPT):
            raise ConfigurationError(
                f"column {output!r} is of type {kinds[wide].simpleString()}, which cannot be handed to a sink exactly",
                sink=sink,
                column=output,
                remedy="make text of it (to_json() of a VARIANT, cast(... as string) of an interval) or a number, or "
                "leave it out with select=.",
            )


def check_order_types(frame: DataFrame, order_by: Sequence[str]) -> None:
    """Raises `ConfigurationError` for a column whose values have no order."""
    for field in frame.schema.fields if order_by else ():
        if field.name in order_by and holds(field.dataType, lambda kind: type(kind).__name__ in _UNORDERED):
            raise ConfigurationError(
                f"order_by= names {field.name!r}, and values of type {field.dataType.simpleString()} have no order",
                remedy="name a column of numbers, times or text; of a value inside make a column, with withColumn().",
            )


def partition_columns(frame: DataFrame, partition_by: Sequence[str]) -> list[str]:
    """The columns `partition_by` as Spark takes them. Raises `ConfigurationError` for what rows cannot be spread by."""
    named = [quoted(name) if name in frame.columns else name for name in partition_by]
    for name, column in zip(partition_by, named, strict=True):
        what = f"partition_by= names {name!r}"
        with spark_refusals_named(what, "", f"the DataFrame has the columns {_shown(frame)}."):
            kinds = [field.dataType for field in frame.select(column).schema.fields]
        for kind in kinds:
            if holds(kind, lambda one: type(one).__name__ in ("MapType", "VariantType")):
                raise ConfigurationError(
                    f"{what}, and values of type {kind.simpleString()} have no hash by which to spread rows",
                    remedy="name a column of numbers, times or text; of a value inside make a column, with "
                    "withColumn().",
                )
    return named


def holds(kind: DataType, wanted: Callable[[DataType], bool]) -> bool:
    """Whether a type is one that is wanted, or holds one inside."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if wanted(kind):
        return True
    inside: list[DataType] = []
    if isinstance(kind, ArrayType):
        inside = [kind.elementType]
    elif isinstance(kind, MapType):
        inside = [kind.keyType, kind.valueType]
    elif isinstance(kind, StructType):
        inside = [field.dataType for field in kind.fields]
    return any(holds(each, wanted) for each in inside)
