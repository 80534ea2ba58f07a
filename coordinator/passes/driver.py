"""One batch's pass as Spark runs it: one job, its reports, the manifest.

What is done with the rows of a partition stands in `partition.py`, what follows from the reports in `parts.py` and
`repair.py`; none of these knows Spark. When a pass runs is decided in the machine. This module knows neither it nor the
engine: it is given values (`PassContext`), and hands back a manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tpc import failpoints
from tpc.coordinator.passes.branch import Mode, SinkTask
from tpc.coordinator.passes.context import PassContext
from tpc.coordinator.passes.driver_branches import DriverBranches
from tpc.coordinator.passes.jobs import PassJobs
from tpc.coordinator.passes.lost_branches import lost_digests, refuse_ambiguous, replacements
from tpc.coordinator.passes.order import in_order
from tpc.coordinator.passes.partition import EpochWork, PartitionReport
from tpc.coordinator.passes.parts import manifest_of, parts_of, slowest
from tpc.coordinator.passes.plan import PassPlan, RoutePlan
from tpc.coordinator.passes.reports import REPORT_SCHEMA, completed, decode
from tpc.coordinator.passes.task import PassTask
from tpc.coordinator.spark.java_errors import in_our_words
from tpc.coordinator.spark.parallelism import parallelism_of
from tpc.effects import ReplayEpoch
from tpc.events import Replayed
from tpc.manifest import Manifest
from tpc.sink import Committable, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


class SparkPass:
    """The runner of one batch: `frame` is what Spark hands to the batch function of the query over `plan.frame`."""

    def __init__(self, frame: DataFrame, plan: PassPlan, context: PassContext) -> None:
        self.frame = frame
        self.plan = plan
        self.context = context
        self.repeated_tasks = False
        """Whether a task ran more than once, so that a loser's branch may exist."""
        self.sink_seconds: dict[str, dict[str, float]] = {}
        """Per sink, how long the slowest task took to "write", to "flush" and to "prepare"."""
        self._jobs: PassJobs | None = None

    def cancel(self) -> None:
        """End the tasks of the pass."""
        if self._jobs is not None:
            self._jobs.cancel()

    # The two ways to run ---------------------------------------------------------------------------------------

    def write(self, epoch: int, generation: int) -> Manifest:
        """Write and prepare every sink; what the epoch rests on is durable then too."""
        hints = self.context.hints()
        tasks = tuple(
            SinkTask(sink, self._routes(name), self._mode(sink), hints[name])
            for name, sink in self.context.fed_sinks.items()
        )
        reports = self._run(epoch, generation, tasks)
        of_driver = self._of_driver(epoch, generation, reports, tasks, self.context.sinks)
        parallelism = parallelism_of(self.frame.sparkSession)
        manifest = manifest_of(self.context, epoch, generation, reports, of_driver, parallelism)
        self.context.await_durable()
        self.context.end_phase("durable")
        return manifest

    def replay(self, effect: ReplayEpoch) -> Replayed:
        """Run the decided batch again; write only what is lost."""
        refuse_ambiguous(effect, {route.sink for route in self.plan.routes if not route.exact})
        lost = lost_digests(effect)
        hints = self.context.hints()
        fed_sinks = self.context.fed_sinks
        tasks = []
        for name, sink in fed_sinks.items():
            digests = lost.get(name)
            mode = Mode.DIGEST if digests is None else self._mode(sink)
            tasks.append(SinkTask(sink, self._routes(name), mode, hints[name], digests))
        reports = self._run(effect.epoch, effect.generation, tuple(tasks))
        of_driver = self._of_driver(effect.epoch, effect.generation, reports, tasks, lost.keys())
        parts = parts_of(self.context, reports, of_driver)
        digests_of_sinks = {name: part.digest for name, part in parts.items()}
        if effect.manifest is not None:
            digests_of_sinks |= {n: part.digest for n, part in effect.manifest.sinks.items() if n not in fed_sinks}
        replaced = replacements(effect, parts)
        if len(replaced) < sum(len(part.branches) for part in parts.values()):
            self.repeated_tasks = True  # partitions of equal rows: the branches that are not needed are losers
        return Replayed(digests_of_sinks, replaced)

    def _routes(self, sink: str) -> tuple[RoutePlan, ...]:
        return tuple(route for route in self.plan.routes if route.sink == sink)

    def _mode(self, sink: Sink) -> Mode:
        return Mode.GATHER if sink.merge is not None and not self.plan.partitioned else Mode.WRITE

    # The job ---------------------------------------------------------------------------------------------------

    def _run(self, epoch: int, generation: int, tasks: tuple[SinkTask, ...]) -> list[PartitionReport]:
        context = self.context
        work = EpochWork(
            context.pipeline, generation, epoch, tasks, self.plan.digests_by_writing, context.unrouted_is_error
        )
        actions = {step: action for step, action in failpoints.installed().items() if step.startswith("pass.")}
        taken = {name for route in self.plan.routes for name in (route.digest, *(wide for wide, _ in route.columns))}
        result = in_order(self.frame, self.plan.order, taken).mapInArrow(PassTask(work, actions).run, REPORT_SCHEMA)
        partitions = result._jdf.queryExecution().toRdd().getNumPartitions()
        context.end_phase("plan")
        with in_our_words():
            rows = self._collected(result)
        reports = decode([(row["sink"], bytes(row["payload"])) for row in rows])
        self.repeated_tasks = any(report.attempt_number > 0 or report.error is not None for report in reports)
        done = completed(reports, partitions, epoch)
        self.sink_seconds = {task.sink.name: slowest(task.sink.name, done) for task in tasks}
        failpoints.hit("epoch.collected", epoch=epoch)
        context.end_phase("pass")
        return done

    def _collected(self, result: DataFrame) -> list[Row]:
        self._jobs = PassJobs(self.frame.sparkSession)
        try:
            return result.collect()
        finally:
            self._jobs.wait_for_cancelled_tasks()

    def _of_driver(
        self,
        epoch: int,
        generation: int,
        reports: Sequence[PartitionReport],
        tasks: Sequence[SinkTask],
        wanted: Collection[str],
    ) -> dict[str, Committable]:
        """The branches that the driver writes itself."""
        branches = DriverBranches(self.context, epoch, generation)
        made = branches.prepare(tasks, reports, wanted)
        for name, seconds in branches.seconds.items():
            times = self.sink_seconds.setdefault(name, {"write": 0.0, "flush": 0.0})
            times["prepare"] = round(times.get("prepare", 0.0) + seconds, 6)
        self.context.end_phase("gather")
        return made
