"""One batch's pass as Spark runs it: one job, and its reports.

What is done with the rows of a partition, and what follows from the reports, is in `kernel.feeding`, which knows no
Spark.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tpc import failpoints
from tpc.coordinator.kernel.feeding.branch import Mode
from tpc.coordinator.kernel.feeding.confirmation import Confirmation
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.kernel.feeding.epoch_pass import EpochPass, slowest
from tpc.coordinator.kernel.feeding.partition import EpochWork, PartitionReport
from tpc.coordinator.spark.batch_metrics import BatchMetrics
from tpc.coordinator.spark.checkpoint_files import FilesOfEpoch
from tpc.coordinator.spark.java_errors import translated_errors
from tpc.coordinator.spark.parallelism import parallelism_of
from tpc.coordinator.spark.passes.dead_letters import LettersSoFar
from tpc.coordinator.spark.passes.digests import KIND
from tpc.coordinator.spark.passes.plan import PassPlan, in_order
from tpc.coordinator.spark.passes.reports import REPORT_SCHEMA, completed, decode, left_losers
from tpc.coordinator.spark.passes.task import PassTask
from tpc.coordinator.spark.passes.worker_needs import DriverHas
from tpc.coordinator.spark.topic_check import TopicCheck
from tpc.errors import DataError, TransientError
from tpc.sink import Committable, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

logger = logging.getLogger(__name__)


class SparkPass(EpochPass):
    """The pass of one batch: `frame` is what Spark hands to the batch function of the query over `plan.frame`.

    `metrics` count its late rows and its state, `files` are what it rests on, `topics` are asked while it runs, and
    `bound` says how many dead letters there may be.
    """

    digest_kind = KIND

    def __init__(
        self,
        frame: DataFrame,
        plan: PassPlan,
        context: PassContext,
        *,
        metrics: BatchMetrics | None = None,
        files: FilesOfEpoch | None = None,
        topics: TopicCheck | None = None,
        bound: LettersSoFar | None = None,
    ) -> None:
        letters = () if plan.letters is None else (plan.letters.route,)
        super().__init__(context, (*plan.routes, *letters), plan.digests_by_writing)
        self.letters = plan.letters
        self._prepared: list[Committable] = []
        self.frame = frame
        self.plan = plan
        self._metrics = metrics
        self._files = files
        self._topics = topics
        self._bound = bound
        self._jobs: PassJobs | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the tasks of the pass, or let none begin."""
        self._is_cancelled = True
        if self._jobs is not None:
            self._jobs.cancel()

    def mode_of(self, sink: Sink) -> Mode:
        """Keyed merges are gathered, unless the rows are partitioned by their key."""
        return Mode.GATHER if sink.merge is not None and not self.plan.partitioned else Mode.WRITE

    def parallelism(self) -> int:
        """See `coordinator.spark.parallelism`."""
        return parallelism_of(self.frame.sparkSession)

    def counts(self) -> Mapping[str, int]:
        """See `EpochPass.counts`."""
        return {} if self._metrics is None else self._metrics.counts()

    def new_source_ids(self) -> Mapping[int, Mapping[str, str]]:
        """See `EpochPass.new_source_ids`."""
        return {} if self._topics is None else self._topics.new_ids

    def refuse_too_many(self, letters: int, rows: int, told: Sequence[str]) -> None:
        """See `EpochPass.refuse_too_many`."""
        if self._bound is not None:
            self._bound.refuse_too_many(letters, rows, told)

    def await_durable(self) -> None:
        """See `EpochPass.await_durable`."""
        if self._files is not None:
            self._files.wait()

    def is_checked(self, sink: Sink) -> bool:
        """Whether two rows of a key meet in one epoch must not say whether one of them is refused."""
        return self.letters is not None and sink.merge is not None

    def run(self, work: EpochWork) -> list[PartitionReport]:
        """One job over the batch's frame; a second one where a refused row is to become a dead letter.

        What the first has prepared is undone before: its locks would hold up the second. An error that names no sink is
        no refusal: of a row that no sink takes, say, which the second job would only meet again.
        """
        try:
            return self._run(work)
        except DataError as error:
            if work.letters is None or not work.letters.may_ask or error.sink is None:
                raise
            logger.warning("epoch %d is written once more without the rows that a sink refuses: %s", work.epoch, error)
        self._undo_prepared()
        if self._metrics is not None:
            self._metrics.runs_again()
        # Rows are checked before a branch is given them: once is enough.
        sinks = tuple(replace(task, is_checked=False) for task in work.sinks)
        letters = replace(work.letters, is_asked=True, may_ask=False)
        done = self._run(replace(work, sinks=sinks, letters=letters))
        self.repeated_tasks = True
        return done

    def _undo_prepared(self) -> None:
        by_sink: dict[str, list[Committable]] = {}
        for committable in self._prepared:
            by_sink.setdefault(committable.handle.sink, []).append(committable)
        for name, committables in by_sink.items():
            self.context.committers[name].abort(committables)

    def _run(self, work: EpochWork) -> list[PartitionReport]:
        context = self.context
        actions = {step: action for step, action in failpoints.installed().items() if step.startswith("pass.")}
        taken = {name for route in self.plan.routes for name in (route.digest, *(wide for wide, _ in route.columns))}
        task = PassTask(work, DriverHas.of(work), actions)
        result = in_order(self.frame, self.plan.order, taken).mapInArrow(task.run, REPORT_SCHEMA)
        with translated_errors():
            partitions = result._jdf.queryExecution().toRdd().getNumPartitions()
            context.phases.end("plan")
            with Confirmation(None if self._topics is None else self._topics.confirm):
                rows = self._collected(result)
        reports = decode([(row["sink"], bytes(row["payload"])) for row in rows])
        stages = {report.attempt.stage for report in reports}
        with translated_errors():
            self.repeated_tasks = left_losers(reports) or (self._jobs is not None and self._jobs.tried_again(stages))
        self._prepared = [
            branch.committable
            for report in reports
            if report.done is not None
            for branch in report.done.branches.values()
            if branch.committable is not None
        ]
        done = completed(reports, partitions, work.epoch)
        self.sink_seconds = {task.sink.name: slowest(task.sink.name, done) for task in work.sinks}
        failpoints.hit("epoch.collected", epoch=work.epoch)
        context.phases.end("pass")
        return done

    def _collected(self, result: DataFrame) -> list[Row]:
        self._jobs = PassJobs(self.frame.sparkSession)
        if self._is_cancelled:
            raise TransientError("the pass was ended: another coordinator leads")
        try:
            return result.collect()
        finally:
            self._jobs.wait_for_cancelled_tasks()


# The Spark jobs of one pass: how they are ended before their end, and when their tasks have really ended.
#
# All jobs of a streaming query have its run's id as their group. A cancelled job is over for Spark at once; its tasks
# are told to end, and may still prepare a branch until they have.

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
