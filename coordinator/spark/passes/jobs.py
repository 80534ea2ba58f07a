"""The Spark jobs of one pass: how they are ended before their end, and when their tasks have really ended.

All jobs of a streaming query have its run's id as their group. A cancelled job is over for Spark at once; its tasks
are told to end, and may still prepare a branch until they have.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GROUP = "spark.jobGroup.id"
_TASKS_END_WITHIN_S = 10.0
_LOOK_EVERY_S = 0.05


class PassJobs:
    """The jobs that are run in the thread in which this is made; `cancel` comes from another."""

    def __init__(self, session: SparkSession) -> None:
        self._context = session.sparkContext
        self._group = self._context.getLocalProperty(_GROUP)
        self._cancelled = False

    def cancel(self) -> None:
        """End what runs."""
        self._cancelled = True
        if self._group:
            self._context.cancelJobGroup(self._group)

    def wait_for_cancelled_tasks(self) -> None:
        """After a `cancel`, wait until no task runs, for at most 10 s; what a later one prepares is for a sweep."""
        if not self._cancelled or not self._group:
            return
        deadline = time.monotonic() + _TASKS_END_WITHIN_S
        while self._running_tasks() and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)

    def tried_again(self, stages: Iterable[int]) -> bool:
        """Whether one of these stages, or a task of it, was tried more than once, or may have had a speculative copy.

        Of a stage that is tried again each task is a first attempt again, so that its reports may not tell.
        """
        if self._context.getConf().get("spark.speculation", "false") == "true":
            return True
        seen = [self._context.statusTracker().getStageInfo(stage) for stage in stages]
        return any(stage is not None and (stage.currentAttemptId > 0 or stage.numFailedTasks > 0) for stage in seen)

    def _running_tasks(self) -> int:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return sum(stage.numActiveTasks for stage in stages if stage is not None)
