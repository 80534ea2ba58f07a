"""A pass by itself, on real Spark: it is given values and hands back a manifest. No engine, no coordinator, no log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql import SparkSession

from tests.core.builders import JOB
from tests.support.folder_sink import FolderSink
from tests.support.memory_sink import MemoryOffsetsSink
from tpc.coordinator.kernel.feeding.context import PassContext
from tpc.coordinator.spark.batch_metrics import BatchMetrics
from tpc.coordinator.spark.passes.driver import SparkPass
from tpc.coordinator.spark.passes.plan import compile_plan
from tpc.coordinator.spark.passes.routes import Writing
from tpc.effects import ReplayEpoch
from tpc.errors import DataError, TransientError
from tpc.handles import DRIVER_PARTITION, Handle
from tpc.manifest import EpochInput, Manifest
from tpc.merge import MergeHow, MergePlan
from tpc.sink import CheckContext, Sink
from tpc.testing.directory_sink import DirectorySink

pytestmark = pytest.mark.spark

MOVED = EpochInput("v1", ('{"orders":{"0":5}}',), ('{"orders":{"0":9,"1":2}}',))
SCHEMA = pyarrow.schema([("id", pyarrow.int64())])


class Ended(list[str]):
    """The phases that have ended, in their order."""

    def end(self, phase: str) -> None:
        self.append(phase)


class Late(BatchMetrics):
    """A query with state that has dropped rows."""

    def counts(self) -> Mapping[str, int]:
        return {"late": 4, "state_rows": 9}


class Job:
    """Ten rows in two partitions: `small` takes the ids below 3, `rest` the others, `tallies` counts by parity."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.spark = spark
        self.small = DirectorySink("small", root / "small")
        self.rest = DirectorySink("rest", root / "rest")
        self.tallies = FolderSink("tallies", root / "tallies", merge=MergePlan(("parity",), {"rows": MergeHow.ADD}))
        self.offsets = MemoryOffsetsSink("offsets")
        self.ended = Ended()

    def context(self, sinks: Sequence[Sink]) -> PassContext:
        committers = {sink.name: sink.committer(JOB) for sink in sinks}
        for committer in committers.values():
            committer.check(CheckContext(JOB, SCHEMA, partitions=2))
        return PassContext(
            pipeline=JOB,
            epoch_input=MOVED,
            sinks={sink.name: sink for sink in sinks},
            committers=committers,
            identities={name: committer.identity() for name, committer in committers.items()},
            previous_epochs=dict.fromkeys(committers, 6),
            phases=self.ended,
        )

    def rows(self, select: str = "id") -> SparkPass:
        """Two sinks that take rows as they come."""
        writing = Writing(self.spark.range(0, 10, 1, 2).selectExpr(select), ())
        writing.to(self.small, where="id < 3").otherwise(self.rest)
        plan = compile_plan([writing])
        return SparkPass(plan.frame, plan, self.context([self.small, self.rest]))

    def tally(self) -> SparkPass:
        """One sink whose rows the driver writes."""
        frame = self.spark.range(0, 10, 1, 2).selectExpr("id % 2 AS parity", "1L AS rows")
        plan = compile_plan([Writing(frame, ()).to(self.tallies)])
        return SparkPass(plan.frame, plan, self.context([self.tallies]))

    def with_offsets(self, epoch_input: EpochInput) -> SparkPass:
        """One sink for rows, and one for the source offsets."""
        plan = compile_plan([Writing(self.spark.range(0, 10, 1, 2).toDF("id"), ()).to(self.rest)])
        context = self.context([self.rest, self.offsets])
        return SparkPass(plan.frame, plan, replace(context, epoch_input=epoch_input, offsets_sink="offsets"))

    def leftovers(self) -> list[int]:
        return [len(sink.leftovers()) for sink in (self.small, self.rest)]


@pytest.fixture
def job(tmp_path: Path, spark: SparkSession) -> Job:
    return Job(tmp_path, spark)


def commit(spark_pass: SparkPass, manifest: Manifest) -> None:
    for name in {sink for sink, _ in manifest.branches()}:
        spark_pass.context.committers[name].commit(manifest.committables(name))


def ids(sink: DirectorySink) -> list[int]:
    return sorted(row["id"] for row in sink.rows())


# Writing -----------------------------------------------------------------------------------------------------------


def test_a_pass_that_is_ended_before_its_job_begins_none(job: Job) -> None:
    spark_pass = job.rows()
    spark_pass.cancel()
    with pytest.raises(TransientError, match="another coordinator leads"):
        spark_pass.write(7, 3)
    assert job.leftovers() == [0, 0]


def test_the_manifest_names_branches_that_are_prepared_and_shows_none_of_their_rows(job: Job) -> None:
    spark_pass = job.rows()
    manifest = spark_pass.write(7, 3)
    handles = [branch.committable.handle for _, branch in manifest.branches()]
    assert sorted((h.sink, h.partition) for h in handles) == [("rest", 0), ("rest", 1), ("small", 0)]
    assert {(h.pipeline, h.generation, h.epoch) for h in handles} == {(JOB, 3, 7)}
    assert job.leftovers() == [1, 2]
    assert (ids(job.small), ids(job.rest)) == ([], [])
    commit(spark_pass, manifest)
    assert (ids(job.small), ids(job.rest)) == ([0, 1, 2], [3, 4, 5, 6, 7, 8, 9])


def test_the_manifest_says_what_it_was_told_and_what_it_has_counted(job: Job) -> None:
    spark_pass = job.rows()
    late = Late(job.spark, "query", stateful=True)
    spark_pass = SparkPass(spark_pass.frame, spark_pass.plan, spark_pass.context, metrics=late)
    manifest = spark_pass.write(7, 3)
    assert (manifest.epoch, manifest.generation, manifest.epoch_input) == (7, 3, MOVED)
    assert manifest.counts == {"rows": 10, "unrouted": 0, "partitions": 2, "parallelism": 2, "late": 4, "state_rows": 9}
    assert {name: part.rows for name, part in manifest.sinks.items()} == {"small": 3, "rest": 7}
    assert {name: part.identity for name, part in manifest.sinks.items()} == spark_pass.context.identities
    assert [part.previous_epoch for part in manifest.sinks.values()] == [6, 6]


def test_each_phase_is_told_when_it_ends_and_each_sink_has_its_seconds(job: Job) -> None:
    spark_pass = job.rows()
    spark_pass.write(7, 3)
    assert job.ended == ["plan", "pass", "gather", "durable"]
    assert {name: set(times) for name, times in spark_pass.sink_seconds.items()} == {
        "small": {"write", "flush", "prepare"},
        "rest": {"write", "flush", "prepare"},
    }
    assert not spark_pass.repeated_tasks


def test_a_keyed_merge_is_one_branch_that_the_driver_writes(job: Job) -> None:
    manifest = job.tally().write(7, 3)
    [(_, branch)] = manifest.branches()
    assert branch.committable.handle.partition == DRIVER_PARTITION
    assert manifest.sinks["tallies"].rows == 10
    commit(job.tally(), manifest)
    assert sorted(row["rows"] for row in job.tallies.rows()) == [5, 5]


def test_source_offsets_are_one_branch_of_the_driver_s_own(job: Job) -> None:
    manifest = job.with_offsets(MOVED).write(7, 3)
    [committable] = manifest.committables("offsets")
    assert committable.handle.partition == DRIVER_PARTITION
    assert job.offsets.taken == [{"orders": {0: 9, 1: 2}}]


def test_source_offsets_that_have_not_moved_have_no_branch(job: Job) -> None:
    manifest = job.with_offsets(EpochInput("v1", MOVED.end, MOVED.end)).write(7, 3)
    assert manifest.committables("offsets") == ()
    assert job.offsets.taken == []


def test_a_row_that_a_sink_refuses_ends_the_pass_by_name_and_its_task_leaves_nothing(job: Job) -> None:
    spark_pass = job.rows("CASE WHEN id = 1 THEN NULL ELSE id END AS id")
    with pytest.raises(DataError, match="column id is NULL") as caught:
        spark_pass.write(7, 3)
    assert (caught.value.pipeline, caught.value.epoch, caught.value.sink) == (str(JOB), 7, "rest")
    left = [Handle.parse(name) for name in job.rest.leftovers() + job.small.leftovers()]
    assert {handle.partition for handle in left} <= {1}
    assert spark_pass.repeated_tasks  # other tasks may have prepared what is of no use now


# A replay ----------------------------------------------------------------------------------------------------------


def test_a_replay_of_what_is_whole_writes_nothing_and_finds_the_same_digests(job: Job) -> None:
    first = job.rows()
    manifest = first.write(7, 3)
    commit(first, manifest)
    replayed = job.rows().replay(ReplayEpoch(7, 4, manifest, frozenset()))
    assert replayed.digests == {name: part.digest for name, part in manifest.sinks.items()}
    assert replayed.replacements == {}
    assert job.leftovers() == [0, 0]


def test_a_replay_writes_the_rows_of_a_lost_branch_again_and_no_others(job: Job) -> None:
    first = job.rows()
    manifest = first.write(7, 3)
    [lost] = [c for c in manifest.committables("rest") if c.handle.partition == 1]
    first.context.committers["rest"].abort([lost])
    spark_pass = job.rows()
    replayed = spark_pass.replay(ReplayEpoch(7, 4, manifest, frozenset([str(lost.handle)])))
    new = replayed.replacements[str(lost.handle)]
    assert (new.committable.handle.generation, new.committable.rows) == (4, lost.rows)
    assert job.leftovers() == [1, 2]
    commit(spark_pass, manifest.repaired(replayed.replacements))
    assert ids(job.rest) == [3, 4, 5, 6, 7, 8, 9]
