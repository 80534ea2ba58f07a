"""What a streaming DataFrame's plan says about it: is it stateful, is it deterministic, may it lose source data.

Reads Spark's logical plan through py4j, once, before the query starts; and, per epoch of a stateful query, how many
rows its watermarks dropped, from the metrics of the plan that has just run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tpc.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

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
_LATE_METRIC = "numRowsDroppedByWatermark"


def check_plan(frame: DataFrame, unguarded: Iterable[DataFrame]) -> bool:
    """Raise for what would break the guarantee; whether the plan `frame` is stateful.

    `unguarded` are those of its expressions that are not computed once per row.
    """
    stateful = is_stateful(frame)
    refuse_data_loss(frame)
    if stateful:
        for one in unguarded:
            refuse_nondeterminism(one)
    return stateful


def is_stateful(frame: DataFrame) -> bool:
    """Whether Spark keeps state between the batches of this streaming DataFrame."""
    for node in _nodes(frame._jdf.queryExecution().analyzed()):
        name = node.getClass().getSimpleName()
        if name in _STATEFUL_NODES:
            return True
        if name == "Join" and node.left().isStreaming() and node.right().isStreaming():
            return True
    return False


def refuse_nondeterminism(frame: DataFrame) -> None:
    """Raise for rand(), uuid() and the like in a stateful plan: a replay would make other rows and other state."""
    for node in _nodes(frame._jdf.queryExecution().analyzed()):
        for expression in _sequence(node.expressions()):
            if not expression.deterministic():
                raise ConfigurationError(
                    f"the stateful query uses an expression that differs at every run: {expression.sql()}",
                    remedy="derive the value from the row (hash, a column of the source) instead.",
                )


def refuse_data_loss(frame: DataFrame) -> None:
    """Raise for sources that go on silently when their data is gone (`failOnDataLoss=false`)."""
    for node in _nodes(frame._jdf.queryExecution().analyzed()):
        if node.getClass().getSimpleName() != "StreamingRelationV2":
            continue
        if (node.extraOptions().get("failOnDataLoss") or "true").lower() == "false":
            raise ConfigurationError(
                "the source is read with failOnDataLoss=false: rows could be skipped silently",
                remedy="remove the option.",
            )


class LateRows:
    """Counts the rows that watermarks dropped in the batch that has just run."""

    def __init__(self, session: SparkSession, query_id: str, *, stateful: bool) -> None:
        self.session = session
        self.query_id = query_id
        self.stateful = stateful
        self._told = True

    def __call__(self) -> int | None:
        """Rows dropped; None where this version of Spark does not tell."""
        from py4j.protocol import Py4JError

        if not self.stateful:
            return 0
        if not self._told:
            return None
        try:
            query = self.session._jsparkSession.streams().get(self.query_id)
            plan = query.streamingQuery().lastExecution().executedPlan()
            return sum(_late_rows(plan))
        except Py4JError:
            logger.exception("late rows cannot be counted with this version of Spark")
            self._told = False
            return None


def _late_rows(plan: Any) -> Iterator[int]:
    for node in _nodes(plan):
        metrics = node.metrics()
        if metrics.contains(_LATE_METRIC):
            yield int(metrics.apply(_LATE_METRIC).value())


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _sequence(plan.children()):
        yield from _nodes(child)


def _sequence(scala: Any) -> Iterator[Any]:
    apply: Callable[[int], Any] = scala.apply
    for index in range(scala.size()):
        yield apply(index)
