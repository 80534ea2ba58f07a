"""What the metrics of the plan that has just run tell of a batch: late rows, and how large the state is by now."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tpc.coordinator.spark.plan_checks import plan_nodes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

COUNTS = {
    "late": "numRowsDroppedByWatermark",
    "state_rows": "numTotalStateRows",
    "state_memory_bytes": "stateMemory",
    "state_disk_bytes": "rocksdbSstFileSize",
}
"""Count of the manifest -> the metric of an operator with state."""


class BatchMetrics:
    """Asked after a pass; counts by name, summed over the operators. What Spark does not tell is left out."""

    def __init__(self, session: SparkSession, query_id: str, *, stateful: bool) -> None:
        self.session = session
        self.query_id = query_id
        self.stateful = stateful
        self._told = True
        self._before: Mapping[str, int] = {}
        """Of runs of this batch that do not count."""

    def runs_again(self) -> None:
        """Do not count what has run of this batch: the metrics of a plan add up over its jobs."""
        self._before = self._counted()

    def counts(self) -> Mapping[str, int]:
        """`late` rows; of a query with state also its rows and bytes."""
        before, self._before = self._before, {}
        return {name: count - before.get(name, 0) for name, count in self._counted().items()}

    def _counted(self) -> Mapping[str, int]:
        from py4j.protocol import Py4JError

        if not self.stateful:
            return {"late": 0}
        if not self._told:
            return {}
        try:
            query = self.session._jsparkSession.streams().get(self.query_id)
            plan = query.streamingQuery().lastExecution().executedPlan()
            return _summed(plan)
        except Py4JError:
            logger.exception("late rows and state cannot be counted with this version of Spark")
            self._told = False
            return {}


def _summed(plan: Any) -> dict[str, int]:
    counts = {"late": 0}
    for node in plan_nodes(plan):
        for name, value in _counts_of(node.metrics()):
            counts[name] = counts.get(name, 0) + value
    return counts


def _counts_of(metrics: Any) -> Iterator[tuple[str, int]]:
    for name, metric in COUNTS.items():
        if metrics.contains(metric):
            yield name, max(0, int(metrics.apply(metric).value()))  # a size that nobody has set is -1
