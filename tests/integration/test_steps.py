"""The steps at which faults are placed: each is reached where it says it is, in a fixed order, on the real systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

import tpc
from tests.integration.four_systems import Dead, FourSystemsJob, Systems, die
from tests.support.step_record import StepRecord
from tpc import failpoints
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.spark.pipeline import LOG_FOLDER


def test_one_epoch_of_all_sinks_comes_to_every_step_in_this_order(systems: Systems) -> None:
    job = FourSystemsJob(systems)
    record = StepRecord(systems.root / "steps")
    job.feed()
    with record.installed():
        job.run()
    job.check()
    assert {where["partition"] for step, where in record.taken() if step == "pass.open"} == {-1, 0, 1}
    assert without_partition(record, 1) == [
        *lines("recovery.claim 1", put(1, "generation"), "recovery.claimed 1", "recovery.owned 1"),
        *lines("recovery.sweep 1", "recovery.swept 1 0", "recovery.reconcile 1", "recovery.reconciled 1"),
        "epoch.planned 0",
        *branch("files", 0),
        *branch("kafka", 0),
        *branch("rows", 0),
        "epoch.collected 0",
        *branch("airports", -1),
        *(step for step in branch("offsets", -1) if not step.startswith("pass.write")),
        *branch("tallies", -1),
        *lines("epoch.prepared 0", put(2, "intent 0"), "epoch.decided 0"),
        *committed("airports", "files", "kafka", "offsets", "rows", "tallies"),
        *lines("epoch.committed 0", put(3, "complete 0"), "epoch.completed 0"),
    ]


def test_a_recovery_comes_to_every_step_in_this_order(systems: Systems) -> None:
    job = FourSystemsJob(systems, ["rows", "tallies"])
    record = StepRecord(systems.root / "steps")
    job.feed()
    job.run_with({"epoch.decided": die}, Dead)
    with record.installed():
        job.run()
    job.check()
    assert record.lines() == [
        *lines("recovery.claim 2", put(3, "generation"), "recovery.claimed 2", "recovery.owned 2"),
        *committed("rows", "tallies"),
        *lines("epoch.committed 0", put(4, "complete 0"), "epoch.completed 0"),
        *lines("recovery.sweep 2", "recovery.swept 2 0", "recovery.reconcile 2", "recovery.reconciled 2"),
        *lines("epoch.planned 0", "epoch.collected 0"),  # for the digests: Spark's commit was not written
    ]


def test_a_merge_that_executors_write_comes_to_its_steps_there(systems: Systems) -> None:
    job = FourSystemsJob(systems, ["tallies"])
    pipeline = tpc.pipeline(job.name, checkpoint=job.checkpoint)
    tally: list[str | Column] = ["carrier", F.lit(1).cast("long").alias("n"), "delay"]
    pipeline.write(job.frame(), partition_by="carrier").to(job.sinks()["tallies"], select=tally)
    record = StepRecord(systems.root / "steps")
    job.feed(carrier="C0")  # one key: one branch
    with record.installed():
        assert pipeline.start(trigger={"availableNow": True}).awaitTermination(120)
    job.check()
    (partition,) = {where["partition"] for step, where in record.taken() if step == "pass.open"}
    taken = record.lines()
    begin, end = taken.index("epoch.planned 0"), taken.index("epoch.collected 0")
    assert (partition >= 0, taken[begin + 1 : end]) == (True, branch("tallies", partition))


@dataclass(frozen=True)
class PreparedThen:
    """Takes down how many transactions PostgreSQL holds prepared at a step. Picklable, for the executors."""

    dsn: str
    path: Path

    def __call__(self, step: str, where: Mapping[str, Any]) -> None:
        with psycopg.connect(self.dsn) as connection:
            query = "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"
            (count,) = connection.execute(query).fetchone() or (None,)
        with self.path.open("a") as file:
            file.write(f"{step} {count}\n")


@pytest.mark.parametrize("sink", ["rows", "tallies"], ids=["on an executor", "on the driver"])
def test_a_flushed_branch_is_not_yet_prepared(systems: Systems, sink: str) -> None:
    job = FourSystemsJob(systems, [sink])
    job.feed(count=1)  # one row: one branch
    action = PreparedThen(systems.postgres.dsn, systems.root / "prepared")
    failpoints.install(dict.fromkeys(("pass.prepare", "pass.flushed", "pass.prepared"), action))
    try:
        job.run()
    finally:
        failpoints.install({})
    assert action.path.read_text().splitlines() == ["pass.prepare 0", "pass.flushed 0", "pass.prepared 1"]


def test_an_answer_of_the_log_that_is_lost_is_asked_for_again_and_nothing_is_doubled(systems: Systems) -> None:
    job = FourSystemsJob(systems, ["rows"])
    lost: list[int] = []

    def lose_once(step: str, where: Mapping[str, Any]) -> None:
        if where["kind"] == "intent" and not lost:
            lost.append(where["slot"])
            raise ConnectionResetError("the reply is lost")

    job.feed()
    failpoints.install({"log.stored": lose_once})
    try:
        job.run()
    finally:
        failpoints.install({})
    job.check()
    assert (lost, LocalLog(job.checkpoint / LOG_FOLDER).slots()) == ([2], [1, 2, 3])


def without_partition(record: StepRecord, partition: int) -> list[str]:
    """The steps but for the branches of a partition: which rows it has, Kafka's partitioner says."""
    other = (f" {partition}",)
    return [line for line in record.lines() if not (line.startswith("pass.") and line.endswith(other))]


def lines(*parts: str | list[str]) -> list[str]:
    return [line for part in parts for line in ([part] if isinstance(part, str) else part)]


def put(slot: int, what: str) -> list[str]:
    """The steps of one record."""
    local = [f"log.{step} {slot}" for step in ("write", "fsync", "link", "linked")]
    return [f"log.put {slot} {what}", *local, f"log.stored {slot} {what}"]


def branch(sink: str, partition: int) -> list[str]:
    """The steps of one branch of epoch 0."""
    return [f"pass.{step} 0 {sink} {partition}" for step in ("open", "write", "prepare", "flushed", "prepared")]


def committed(*sinks: str) -> list[str]:
    """The commits of epoch 0."""
    return [f"{step} {sink} 0" for sink in sinks for step in ("sink.commit", "sink.committed")]
