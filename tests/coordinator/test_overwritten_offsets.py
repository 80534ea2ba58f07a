"""A forgotten driver writes Spark's `offsets/N` late, over another's: on a local disk, and on Spark's file systems.

What it may write is taken from what Spark itself writes: another end of the source, at another time.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.coordinator.test_checkpoint_elsewhere import JobElsewhere
from tests.coordinator.test_recovery import Job, die_at
from tests.support.session_settings import session_with
from tpc.coordinator.spark.query import PipelineQuery
from tpc.coordinator.spark.running_plan import RunningPlan, running_plan
from tpc.errors import HistoryMismatchError, TransientError


@pytest.fixture(params=["local", "viewfs"])
def job(
    request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Job]:
    if request.param == "local":
        yield Job(tmp_path, spark)
        return
    box, held = f"box-{uuid.uuid4().hex}", tmp_path / "held"
    held.mkdir()
    monkeypatch.setenv("TPC_NOTES", str(tmp_path / "notes"))
    with session_with(spark, {f"fs.viewfs.mounttable.{box}.link./kept": f"file://{held}"}):
        yield JobElsewhere(tmp_path, spark, f"viewfs://{box}/kept/job", held / "job")


def arrives_late(job: Job, batch: int, end: int, *, later_ms: int = 1) -> None:
    """The plan of a driver that had read the source up to `end`."""
    path = job.checkpoint / "offsets" / str(batch)
    version, metadata, _ = path.read_text().split("\n")
    made = json.loads(metadata)
    made["batchTimestampMs"] += later_ms
    job.lose("offsets", batch)
    path.write_text("\n".join([version, json.dumps(made, separators=(",", ":")), f'{{"logOffset":{end}}}']))


def moved_aside(job: Job) -> list[str]:
    return sorted(path.name.rpartition("-")[0] for path in job.checkpoint.glob("tpc/moved-aside/*[0-9]"))


def arrives_under_the_query(
    monkeypatch: pytest.MonkeyPatch, job: Job, *, running: int, batch: int, end: int, later_ms: int = 1
) -> None:
    """The plan of `batch` arrives when Spark has written that of the batch `running`, and calls for it."""

    def first_arrives(*where: Any) -> RunningPlan:
        if max(job.spark_files("offsets")) == running:
            arrives_late(job, batch, end, later_ms=later_ms)
        return running_plan(*where)

    monkeypatch.setattr("tpc.coordinator.spark.query.running_plan", first_arrives)


def ends_at_once(job: Job, why: str) -> None:
    """The query ends, with nothing done for the epoch."""
    with pytest.raises(TransientError, match=why):
        job.run()


@pytest.mark.parametrize("step", ["epoch.decided", "epoch.completed"])
def test_a_late_plan_of_the_newest_decided_epoch_is_put_right_by_the_start(job: Job, step: str) -> None:
    job.stateful().feed.epochs(3)
    job.run_until_dead({step: die_at(2)})
    arrives_late(job, batch=2, end=1)
    job.feed.epochs(1)
    job.run()
    job.check()
    assert "offsets-2" in moved_aside(job)


def test_a_late_plan_beside_its_commit_is_put_right_by_the_start(job: Job) -> None:
    job.stateful().feed.epochs(3)
    job.run()
    newest = max(job.spark_files("offsets"))
    arrives_late(job, batch=newest, end=0)
    job.feed.epochs(2)
    job.run()
    job.check()
    assert moved_aside(job) == [f"commits-{newest}", f"offsets-{newest}"]


def test_late_plans_that_follow_each_other_stop_the_start(job: Job) -> None:
    job.feed.epochs(3)
    job.run()
    for batch in (1, 2):
        arrives_late(job, batch, end=0)
    with pytest.raises(HistoryMismatchError, match="offsets/1 and offsets/2 are not what was decided"):
        job.start()


@pytest.mark.parametrize(("end", "later_ms"), [(0, 1), (1, 1)], ids=["another end", "the same end at another time"])
def test_a_plan_that_replaces_the_running_one_ends_the_query_and_the_restart_uses_it(
    job: Job, monkeypatch: pytest.MonkeyPatch, end: int, later_ms: int
) -> None:
    """An intent of the one plan with the rows of the other would lose or double what lies between."""
    job.stateful().feed.epochs(3)
    with monkeypatch.context() as patched:
        arrives_under_the_query(patched, job, running=1, batch=1, end=end, later_ms=later_ms)
        ends_at_once(job, "offsets/1 is not the plan that the query runs")
    job.feed.epochs(1)
    job.run()
    job.check()


def test_a_late_plan_of_the_epoch_before_ends_the_query_and_the_restart_goes_on(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.stateful().feed.epochs(4)
    with monkeypatch.context() as patched:
        arrives_under_the_query(patched, job, running=2, batch=1, end=0)
        ends_at_once(job, "batch 2 begins at .* epoch 1 ended at")
    job.run()
    job.check()
    assert "offsets-1" in moved_aside(job)


def test_a_late_plan_of_a_decided_epoch_that_runs_again_ends_the_query_and_the_restart_goes_on(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.stateful().feed.epochs(3)
    job.run_until_dead({"epoch.decided": die_at(1)})
    with monkeypatch.context() as patched:
        arrives_under_the_query(patched, job, running=1, batch=1, end=0)
        ends_at_once(job, "offsets/1 is not what was decided")
    job.run()
    job.check()


def test_once_late_plans_that_follow_each_other_are_removed_the_start_goes_on(job: Job) -> None:
    job.stateful().feed.epochs(4)
    job.run()
    newest = max(job.spark_files("offsets"))
    for batch in (newest - 1, newest):
        arrives_late(job, batch, end=0)
    with pytest.raises(HistoryMismatchError, match="are not what was decided"):
        job.start()
    for batch in (newest - 1, newest):
        job.lose("offsets", batch)
    job.feed.epochs(2)
    job.run()
    job.check()


@pytest.mark.parametrize(
    ("at_start", "stateful", "ends"),
    [
        (1, False, "batch 2 doesn't exist"),
        (1, True, "batch 2 doesn't exist"),
        (2, False, None),  # the epochs that Spark goes past are complete
        (2, True, "streaming state file of .* does not exist"),
    ],
)
def test_a_late_plan_that_arrives_while_spark_is_caught_up_costs_a_restart_at_most(
    job: Job, monkeypatch: pytest.MonkeyPatch, at_start: int, stateful: bool, ends: str | None
) -> None:
    (job.stateful() if stateful else job).feed.epochs(4)
    job.run_until_dead({"epoch.prepared": die_at(3)})
    late = (job.checkpoint / "offsets" / "3").read_text()
    job.lose("offsets", 3)
    job.lose("commits", 2)
    job.lose("commits", 1)
    starts = 0
    start_spark = PipelineQuery._start_spark

    def first_arrives(query: PipelineQuery, trigger: Mapping[str, Any]) -> StreamingQuery:
        nonlocal starts
        starts += 1
        if starts == at_start:
            (job.checkpoint / "offsets" / "3").write_text(late)
        return start_spark(query, trigger)

    with monkeypatch.context() as patched:
        patched.setattr(PipelineQuery, "_start_spark", first_arrives)
        with nullcontext() if ends is None else pytest.raises((StreamingQueryException, TransientError), match=ends):
            job.run()
    assert starts == at_start
    assert 3 in job.spark_files("offsets")
    job.feed.epochs(1)
    job.run()
    job.check()
    assert ("offsets-3" in moved_aside(job)) is (ends is not None)
