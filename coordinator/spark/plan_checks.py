"""What a streaming DataFrame's plan says about it: is it stateful, is it deterministic, may it lose source data.

Reads Spark's logical plan through py4j, once, before the query starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError
from tpc.source_options import TABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATEFUL_NODES = {
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsInPandasWithState",
    "FlatMapGroupsWithState",
    "GlobalLimit",
    "TransformWithState",
    "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
}

_LIMITS = {"GlobalLimit", "LocalLimit"}


def check_plan(frame: DataFrame, unguarded: Iterable[DataFrame], trigger: Mapping[str, Any]) -> bool:
    """Raise for what would break the guarantee; whether the plan `frame` is stateful.

    `unguarded` are those of its expressions that are not computed once per row.
    """
    stateful = is_stateful(frame)
    refuse_limits(frame)
    refuse_data_loss(frame)
    refuse_bound_asked_once(frame, trigger)
    if stateful:
        for one in unguarded:
            refuse_nondeterminism(one)
    return stateful


def is_stateful(frame: DataFrame) -> bool:
    """Whether Spark keeps state between the batches of this streaming DataFrame."""
    for node in plan_nodes(frame._jdf.queryExecution().analyzed()):
        name = node.getClass().getSimpleName()
        if name in _STATEFUL_NODES:
            return True
        if name == "Join" and node.left().isStreaming() and node.right().isStreaming():
            return True
    return False


def refuse_nondeterminism(frame: DataFrame) -> None:
    """Raise for rand(), uuid() and the like in a stateful plan: a replay would make other rows and other state."""
    for node in plan_nodes(frame._jdf.queryExecution().analyzed()):
        if node.deterministic():
            continue
        for expression in _sequence(node.expressions()):
            if not expression.deterministic():
                raise ConfigurationError(
                    f"the stateful query uses an expression that differs at every run: {expression.sql()}",
                    remedy="derive the value from the row (hash, a column of the source) instead.",
                )


def refuse_limits(frame: DataFrame) -> None:
    """Raise for `limit(n)` of a stream: it has one epoch, and no later start goes on from the state of that."""
    for node in plan_nodes(frame._jdf.queryExecution().analyzed()):
        if node.getClass().getSimpleName() in _LIMITS and node.isStreaming():
            raise ConfigurationError(
                "limit() of a streaming DataFrame: it is of the whole stream and not of an epoch, and Spark cannot go "
                "on from the state of its first epoch",
                remedy="leave limit() out. To bound an epoch, bound its source (maxOffsetsPerTrigger, "
                "maxFilesPerTrigger); to take some rows alone, say which with where=.",
            )


def refuse_data_loss(frame: DataFrame) -> None:
    """Raise for sources that go on silently when their data is gone (`failOnDataLoss=false`)."""
    for node in plan_nodes(frame._jdf.queryExecution().analyzed()):
        if node.getClass().getSimpleName() != "StreamingRelationV2":
            continue
        if (node.extraOptions().get("failOnDataLoss") or "true").lower() == "false":
            raise ConfigurationError(
                "the source is read with failOnDataLoss=false: rows could be skipped silently",
                remedy="remove the option.",
            )


def reads_table(frame: DataFrame) -> bool:
    """Whether a table is among the sources."""
    return any(True for _ in _tables(frame))


def _tables(frame: DataFrame) -> Iterator[Any]:
    for node in plan_nodes(frame._jdf.queryExecution().analyzed()):
        if node.getClass().getSimpleName() == "StreamingRelationV2" and node.sourceName() == TABLE:
            yield node


def refuse_bound_asked_once(frame: DataFrame, trigger: Mapping[str, Any]) -> None:
    """Raise where a source that bounds its epochs would be asked for one of them, and the query end after it.

    Spark before 4.2 asks a source of Python once under these triggers.
    """
    once = sorted(trigger.keys() & {"availableNow", "once"})
    for node in _tables(frame) if once else ():
        if node.extraOptions().get("rowsPerEpoch"):
            raise ConfigurationError(
                f"the table is read with rows_per_epoch, and the trigger {once[0]!r} would end the query after one "
                "epoch of so many rows",
                remedy='leave rows_per_epoch out, or pass trigger={"processingTime": "1 second"}.',
            )


def plan_nodes(plan: Any) -> Iterator[Any]:
    """A plan's operators, logical or physical, from the top down."""
    yield plan
    for child in _sequence(plan.children()):
        yield from plan_nodes(child)


def _sequence(scala: Any) -> Iterator[Any]:
    apply: Callable[[int], Any] = scala.apply
    for index in range(scala.size()):
        yield apply(index)
