"""A partition of an epoch as a Spark task: runs on executors, inside `mapInArrow`.

Spark runs the function that is given to it; what is done with the rows stands in `partition.py`. A task that fails
after a prepare undoes its own branches; it never touches another attempt's. Errors of this library travel back in the
report instead of failing the task, since Spark would run a task again that can only fail again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpc import failpoints
from tpc.coordinator.kernel.feeding.partition import EpochWork, PartitionFeed
from tpc.coordinator.spark.passes.arrow_schema import in_utc
from tpc.coordinator.spark.passes.reports import TaskAttempt, TaskReport, encode
from tpc.coordinator.spark.passes.worker_needs import DriverHas, require_needs
from tpc.coordinator.spark.passes.worker_process import spare_repetitions
from tpc.errors import TpcError

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class PassTask:
    """All that a task needs to know; pickled with the job."""

    work: EpochWork
    driver: DriverHas
    actions: Mapping[str, failpoints.Action] = field(default_factory=dict)
    """What is installed at the steps "pass.*" in the driver, for the workers."""

    def run(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """The function for `mapInArrow`."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        failpoints.install(self.actions)
        attempt = TaskAttempt(
            context.partitionId(), context.attemptNumber(), context.taskAttemptId(), context.stageId()
        )
        try:
            require_needs(self.work, self.driver)
            feed = PartitionFeed(self.work, attempt.partition, attempt.task_id)
            report = TaskReport(attempt, feed.run(in_utc(batches)))
        except TpcError as error:
            report = TaskReport(attempt, error=error)
        yield encode(report)
        spare_repetitions()
