"""A pipeline on real Spark, stopped dead at every step of the protocol, restarted, and right afterwards."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import tpc
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tests.support.session_settings import session_with
from tpc import failpoints
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.commands.status_lines import status_lines
from tpc.coordinator.spark.passes.digests import KIND
from tpc.coordinator.spark.passes.driver import SparkPass
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.coordinator.spark.query import PipelineQuery
from tpc.effects import ReplayEpoch
from tpc.errors import (
    ConfigurationError,
    DataError,
    DeterminismError,
    DigestKindError,
    FencedError,
    HistoryMismatchError,
    ParkedError,
    RepairNeededError,
    StateLostError,
    TransientError,
)
from tpc.events import Replayed
from tpc.history import Action, Resolution
from tpc.merge import MergeHow, MergePlan
from tpc.sink import GivenUp, Verdict
from tpc.support import durable_files

STEPS = ["epoch.prepared", "epoch.decided", "sink.committed", "epoch.committed", "epoch.completed"]


class Dead(Exception):  # noqa: N818  no error: it is what the test does
    """Stands for the end of the process: nobody of ours handles it."""


class Job:
    """One pipeline with three sinks on a feed, that can be started again and again."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark
        self.feed = Feed(root / "feed")
        self.checkpoint = root / "checkpoint"
        merge = MergePlan(("key",), {"total": MergeHow.ADD, "rows": MergeHow.ADD})
        self.evens = FolderSink("evens", root / "evens")
        self.odds = FolderSink("odds", root / "odds")
        self.tallies = FolderSink("tallies", root / "tallies", merge=merge)
        self.sinks = [self.evens, self.odds, self.tallies]
        self.prepare: Callable[[DataFrame], DataFrame] = lambda frame: frame

    def stateful(self) -> Job:
        self.prepare = lambda frame: frame.withWatermark("event", "10 minutes").dropDuplicatesWithinWatermark(["id"])
        return self

    def pipeline(self, **settings: Any) -> Pipeline:
        pipeline = tpc.pipeline("job", checkpoint=self.checkpoint, **settings)
        frame = self.prepare(self.feed.frame(self.spark))
        tally: list[str | Column] = ["key", F.col("value").alias("total"), F.lit(1).cast("long").alias("rows")]
        pipeline.write(frame).to(self.tallies, select=tally).to(
            self.evens, where="value % 2 = 0", select=["id", "value"]
        ).to(self.odds, where="value % 2 = 1", select=["id", "value"])
        return pipeline

    def start(self, **settings: Any) -> PipelineQuery:
        return self.pipeline(**settings).start(trigger={"availableNow": True})

    def run(self) -> PipelineQuery:
        """Start and wait until everything in the feed is committed."""
        query = self.start()
        query.awaitTermination(120)
        return query

    def run_until_dead(self, actions: Mapping[str, failpoints.Action]) -> None:
        failpoints.install(actions)
        try:
            with pytest.raises(Dead):
                self.run()
        finally:
            failpoints.install({})

    def check(self) -> None:
        """Every row of the feed is in its sinks exactly once, and nothing is left behind."""
        ids = {row["id"]: row["value"] for row in self.feed.added}
        assert self.evens.values("id") == {i: 1 for i, value in ids.items() if value % 2 == 0}
        assert self.odds.values("id") == {i: 1 for i, value in ids.items() if value % 2 == 1}
        rows = self.tallies.rows()
        assert sum(row["rows"] for row in rows) == len(ids)
        assert sum(row["total"] for row in rows) == sum(ids.values())
        assert [sink.leftovers() for sink in self.sinks] == [[], [], []]

    @property
    def log(self) -> LocalLog:
        return LocalLog(self.checkpoint / "tpc" / "log")

    def spark_files(self, kind: str) -> list[int]:
        return sorted(int(p.name) for p in (self.checkpoint / kind).iterdir() if p.name.isdigit())

    def lose(self, kind: str, batch: int) -> None:
        (self.checkpoint / kind / str(batch)).unlink()
        (self.checkpoint / kind / f".{batch}.crc").unlink(missing_ok=True)


@pytest.fixture
def job(tmp_path: Path, spark: SparkSession) -> Job:
    return Job(tmp_path, spark)


def die_at(epoch: int | None) -> failpoints.Action:
    """Die when `epoch` reaches the step; None: whichever does first, one that recovery finishes included."""

    def action(step: str, where: Mapping[str, Any]) -> None:
        if epoch in (None, where["epoch"]):
            raise Dead(step)

    return action


def test_every_row_reaches_every_sink_once_and_the_history_tells_of_each_epoch(job: Job) -> None:
    job.feed.epochs(4)
    query = job.run()
    job.check()
    history = query.history()
    assert [row["epoch"] for row in history] == [0, 1, 2, 3]
    assert {row["status"] for row in history} == {"complete"}
    assert sum(row["rows"] for row in history) == 24
    assert {"plan", "pass", "gather", "intent", "commit"} <= history[0]["seconds"].keys()
    assert all({"write", "flush", "prepare"} == times.keys() for times in history[0]["sink_seconds"].values())
    assert {"walCommit", "addBatch", "commitOffsets"} <= history[3]["spark_seconds"].keys()
    assert query.exception() is None


@pytest.mark.parametrize("stateful", [False, True], ids=["stateless", "stateful"])
@pytest.mark.parametrize("step", STEPS)
def test_a_death_at_any_step_loses_and_doubles_nothing(job: Job, step: str, stateful: bool) -> None:
    if stateful:
        job.stateful()
    job.feed.epochs(3)
    job.run_until_dead({step: die_at(1)})
    job.feed.epochs(1)
    job.run()
    job.check()


def test_deaths_at_every_step_in_a_row_lose_and_double_nothing(job: Job) -> None:
    job.stateful().feed.epochs(1)
    job.run()
    for step in STEPS:
        job.feed.epochs(1)
        job.run_until_dead({step: die_at(None)})
    job.run()
    job.check()


def test_a_worker_that_dies_with_prepared_branches_leaves_nothing(job: Job) -> None:
    job.feed.epochs(2)
    failpoints.install({"pass.prepared": exit_worker})
    try:
        query = job.start()
        with pytest.raises(Exception, match=r"Python worker exited unexpectedly|crashed"):
            query.awaitTermination(120)
    finally:
        failpoints.install({})
    job.run()
    job.check()


def exit_worker(step: str, where: Mapping[str, Any]) -> None:
    import os

    os._exit(9)


def test_spark_s_lost_commit_replays_the_batch_and_touches_no_sink(job: Job) -> None:
    job.stateful().feed.epochs(3)
    job.run()
    job.lose("commits", 2)
    job.feed.epochs(1)
    job.run()
    job.check()


def test_spark_s_lost_offsets_of_a_decided_epoch_are_written_back(job: Job) -> None:
    job.feed.epochs(2)
    job.run_until_dead({"epoch.decided": die_at(1)})
    before = (job.checkpoint / "offsets" / "1").read_text()
    job.lose("offsets", 1)
    job.run()
    assert (job.checkpoint / "offsets" / "1").read_text() == before
    job.check()


def test_spark_s_log_several_batches_behind_is_caught_up_one_batch_at_a_time(job: Job) -> None:
    job.stateful().feed.epochs(5)
    job.run()
    for batch in job.spark_files("commits")[2:]:
        job.lose("commits", batch)
    job.lose("offsets", job.spark_files("offsets")[-1])
    job.feed.epochs(1)
    job.run()
    assert job.spark_files("commits") == list(range(len(job.spark_files("offsets"))))
    job.check()


def test_a_catch_up_that_died_on_its_way_is_begun_again(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.stateful().feed.epochs(5)
    job.run()
    for batch in job.spark_files("commits")[2:]:
        job.lose("commits", batch)
    replay = SparkPass.replay

    def dies_after_one(runner: SparkPass, effect: ReplayEpoch) -> Replayed:
        if effect.epoch > 2:
            raise Dead
        return replay(runner, effect)

    with monkeypatch.context() as patched, pytest.raises(Dead):
        patched.setattr(SparkPass, "replay", dies_after_one)
        job.run()
    assert max(job.spark_files("commits")) == 2  # it names state stores that were recreated
    job.run()
    job.check()


def test_a_batch_is_run_again_before_the_one_that_spark_had_planned_after_it(job: Job) -> None:
    job.stateful().feed.epochs(3)
    job.run_until_dead({"epoch.prepared": die_at(2)})
    assert job.spark_files("offsets") == [0, 1, 2]
    job.lose("commits", 1)  # a power cut may take it and leave the plan of batch 2
    job.run()
    job.check()
    assert job.spark_files("commits")[:3] == [0, 1, 2]


def test_a_lost_log_is_not_taken_for_an_empty_history(job: Job) -> None:
    job.feed.epochs(1)
    job.run()
    shutil.rmtree(job.checkpoint / "tpc")
    with pytest.raises(HistoryMismatchError, match="the intent log is empty, but the sink reports epoch 0"):
        job.start()


def test_spark_s_commits_without_intents_stop_the_start(job: Job) -> None:
    job.feed.epochs(1)
    frame = job.feed.frame(job.spark)
    plain = frame.writeStream.format("noop").option("checkpointLocation", str(job.checkpoint))
    plain.trigger(availableNow=True).start().awaitTermination()
    with pytest.raises(HistoryMismatchError, match="Spark has committed batch 0"):
        job.start()


def test_without_any_list_of_the_files_that_a_source_has_found_the_start_stops(job: Job) -> None:
    job.feed.epochs(3)
    job.run()
    shutil.rmtree(job.checkpoint / "sources")
    job.feed.epochs(1)
    with pytest.raises(StateLostError, match="sources/0/0 is torn or gone"):
        job.run()
    assert job.spark_files("offsets") == [0, 1, 2]


def test_from_state_of_an_earlier_epoch_put_in_place_the_decided_epochs_are_caught_up(job: Job) -> None:
    job.stateful().feed.epochs(1)
    job.run()
    shutil.copytree(job.checkpoint / "state", job.root / "old-state")
    job.feed.epochs(2)
    job.run()
    shutil.rmtree(job.checkpoint / "state")
    shutil.copytree(job.root / "old-state", job.checkpoint / "state")
    job.feed.epochs(1)
    job.run()
    job.check()


def test_an_epoch_whose_state_cannot_be_made_durable_is_not_decided(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.stateful().feed.epochs(2)
    sync = durable_files.sync

    def broken(path: Path) -> None:
        if path.suffix == ".changelog":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        sync(path)

    monkeypatch.setattr(durable_files, "sync", broken)
    with pytest.raises(TransientError, match=r"could not be made durable: Input/output error: .*1_.*\.changelog"):
        job.run()
    assert Journal(job.log).open().last_intent == 0
    monkeypatch.undo()
    query = job.run()
    job.check()
    assert all("durable" in epoch["seconds"] for epoch in query.history())


def lose_branch_of(sink: FolderSink) -> failpoints.Action:
    def action(step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 1:
            for path in (sink.root / "prepared").glob("*"):
                path.unlink()

    return action


@pytest.mark.parametrize("name", ["evens", "tallies"])
def test_a_branch_lost_after_the_decision_is_repaired_by_the_replay_of_its_sink_alone(job: Job, name: str) -> None:
    job.stateful().feed.epochs(2)
    sink: FolderSink = getattr(job, name)
    failpoints.install({"epoch.decided": lose_branch_of(sink)})
    try:
        with pytest.raises(RepairNeededError) as caught:
            job.run()
    finally:
        failpoints.install({})
    assert (caught.value.sink, caught.value.epoch) == (name, 1)
    generations = {handle.generation for handle, _ in job.odds.branches() if handle.epoch == 1}
    job.run()
    job.check()
    assert generations == {handle.generation for handle, _ in job.odds.branches() if handle.epoch == 1}
    assert {handle.generation for handle, _ in sink.branches() if handle.epoch == 1} > generations or generations == {1}


def test_a_repair_that_would_write_other_rows_stops_and_writes_nothing(job: Job) -> None:
    job.feed.epochs(2)
    failpoints.install({"epoch.decided": lose_branch_of(job.evens)})
    try:
        with pytest.raises(RepairNeededError):
            job.run()
    finally:
        failpoints.install({})
    file = job.feed.directory / "00001.json"
    file.write_text(file.read_text().replace('"id": 6', '"id": 999'))
    with pytest.raises(DeterminismError) as caught:
        job.run()
    assert (caught.value.sink, caught.value.epoch) == ("evens", 1)
    assert 999 not in job.evens.values("id")
    assert job.evens.leftovers() == []


def test_a_repair_by_digests_of_another_kind_stops_as_that_and_writes_nothing(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.feed.epochs(2)
    failpoints.install({"epoch.decided": lose_branch_of(job.evens)})
    try:
        with pytest.raises(RepairNeededError):
            job.run()
    finally:
        failpoints.install({})
    monkeypatch.setattr(SparkPass, "digest_kind", "another")
    with pytest.raises(DigestKindError, match=f"decided with {KIND}, its replay makes another") as caught:
        job.run()
    assert (caught.value.sink, caught.value.epoch) == ("evens", 1)
    assert job.evens.leftovers() == []
    monkeypatch.undo()
    job.run()
    job.check()


def test_a_refused_epoch_is_parked_and_a_restart_tries_once_more(job: Job) -> None:
    job.feed.epochs(2)
    job.odds.plant_verdict(Verdict.REFUSED)
    with pytest.raises(ParkedError) as caught:
        job.run()
    assert (caught.value.sink, caught.value.epoch) == ("odds", 0)
    assert job.evens.values("id"), "the other sinks have committed the epoch"
    with pytest.raises(ParkedError):
        job.start()
    state = actions.status(job.log, LocalCheckpoint(job.checkpoint))
    assert (state["parked"]["sink"], state["parked"]["what"]) == ("odds", caught.value.what)
    assert any(line.startswith("epoch 0 is parked: sink odds, ") for line in status_lines(state))
    job.odds.plant_verdict(None)
    job.run()
    assert actions.status(job.log, LocalCheckpoint(job.checkpoint))["parked"] is None
    job.check()


def test_a_parked_epoch_goes_on_after_a_recorded_loss(job: Job) -> None:
    job.feed.epochs(1)
    job.odds.plant_verdict(Verdict.REFUSED)
    with pytest.raises(ParkedError):
        job.run()
    resolution = Resolution(0, "odds", Action.ACCEPT_LOSS, "the table is gone", "anna")
    actions.resolve(job.log, LocalCheckpoint(job.checkpoint), resolution)
    job.odds.plant_verdict(None)
    job.feed.epochs(1)
    job.run()
    first = {row["id"] for row in job.feed.added[:6]}
    assert not first & set(job.odds.values("id"))
    assert set(job.odds.values("id")) == {r["id"] for r in job.feed.added[6:] if r["value"] % 2 == 1}
    assert Journal(job.log).open().resolutions == (replace(resolution, ends={GivenUp.UNDONE: 1}),)


def test_a_row_that_a_sink_refuses_aborts_the_epoch_everywhere_and_the_fixed_one_is_repeated(job: Job) -> None:
    job.feed.epochs(2)
    job.evens.poison = 9
    with pytest.raises(DataError) as caught:
        job.run()
    assert (caught.value.sink, caught.value.epoch, caught.value.key) == ("evens", 1, 9)
    assert {handle.epoch for handle, _ in job.odds.branches()} == {0}
    assert [sink.leftovers() for sink in job.sinks] == [[], [], []]
    job.evens.poison = None
    job.run()
    job.check()


def test_a_second_start_on_one_checkpoint_is_refused(job: Job) -> None:
    job.feed.epochs(1)
    first = job.pipeline().start()
    try:
        with pytest.raises(ConfigurationError, match="runs in this Spark session"):
            job.start()
    finally:
        first.stop()


def test_a_query_that_ends_on_the_files_of_another_driver_ends_fenced(job: Job) -> None:
    """Spark says so in words of its own, which a supervisor would take for passing trouble and restart."""
    job.feed.epochs(1)

    def another_takes_over(name: str, where: Mapping[str, Any]) -> None:
        failpoints.install({})
        second = job.pipeline().coordinator()
        second.lock(takeover=True)
        second.finish()
        second.close()
        (job.checkpoint / "commits").mkdir(exist_ok=True)
        (job.checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')

    failpoints.install({"epoch.completed": another_takes_over})
    try:
        with pytest.raises(FencedError):
            job.start().awaitTermination(60)
    finally:
        failpoints.install({})


def test_a_takeover_fences_the_first_coordinator_which_changes_nothing_more(job: Job) -> None:
    job.feed.epochs(1)
    first = job.pipeline().start()
    first.processAllAvailable()
    second = job.pipeline().coordinator()
    second.lock(takeover=True)
    second.finish()
    second.close()
    job.feed.epochs(1)
    with pytest.raises(FencedError):
        first.awaitTermination(60)
    assert {handle.epoch for handle, _ in job.evens.branches()} == {0}
    job.run()
    job.check()


def test_a_checkpoint_of_another_pipeline_is_refused(job: Job) -> None:
    job.feed.epochs(1)
    job.run()
    other = tpc.pipeline("other", checkpoint=job.checkpoint)
    other.write(job.feed.frame(job.spark)).to(FolderSink("x", job.root / "x"))
    with pytest.raises(ConfigurationError, match="belongs to pipeline job#1"):
        other.start()


def test_a_pending_intent_binds_its_sinks(job: Job) -> None:
    job.feed.epochs(1)
    job.run_until_dead({"epoch.decided": die_at(0)})
    job.evens = FolderSink("evens", job.root / "elsewhere")
    with pytest.raises(ConfigurationError, match="points at another system"):
        job.start()
    job.evens = FolderSink("evens", job.root / "evens")
    job.run()
    job.check()


def test_recover_finishes_what_is_decided_without_running_the_query(job: Job) -> None:
    job.feed.epochs(2)
    job.run_until_dead({"epoch.decided": die_at(1)})
    assert [d["fate"] for d in actions.in_doubt(job.pipeline())] != []
    assert actions.recover(job.pipeline())["last_complete"] == 1
    assert actions.in_doubt(job.pipeline()) == []
    job.run()
    job.check()


def test_sweep_aborts_what_no_intent_names_and_leaves_the_decided_epoch(job: Job) -> None:
    job.feed.epochs(2)
    job.run_until_dead({"epoch.decided": die_at(1)})
    named = actions.in_doubt(job.pipeline())
    stray = job.evens.root / "prepared" / "tpc~job~1~1~evens~7~0~1"
    stray.write_text("[]")
    assert actions.sweep(job.pipeline())["aborted"] == 1
    assert actions.in_doubt(job.pipeline()) == named
    job.run()
    job.check()


def test_a_late_prepare_after_the_first_sweep_is_aborted_by_a_later_one(job: Job) -> None:
    job.feed.epochs(1)
    job.run()
    stray = job.evens.root / "prepared" / "tpc~job~1~1~evens~1~0~1"
    stray.write_text('[{"id": 77, "value": 0}]')
    job.feed.epochs(1)
    job.run()
    job.check()


def test_rows_that_no_sink_takes_are_counted_or_refused(job: Job) -> None:
    job.feed.epoch([{"id": 1, "key": "a", "value": None, "event": "2026-01-01T00:00:00Z"}, {"id": 2, "value": 3}])

    def pipeline(unrouted: str) -> Pipeline:
        made = tpc.pipeline("job", checkpoint=job.checkpoint, unrouted=unrouted)
        made.write(job.feed.frame(job.spark)).to(job.evens, where="value % 2 = 0").to(job.odds, where="value % 2 = 1")
        return made

    strict = pipeline("error").start(trigger={"availableNow": True})
    with pytest.raises(DataError, match="no sink takes the row id=1"):
        strict.awaitTermination(60)
    query = pipeline("count").start(trigger={"availableNow": True})
    query.awaitTermination(60)
    assert [row["unrouted"] for row in query.history()] == [1]


def test_late_rows_are_counted_per_epoch(job: Job) -> None:
    job.stateful().feed.epochs(1)
    job.feed.epoch([{"id": 100, "key": "a", "value": 1, "event": "2026-01-01T09:00:00Z"}])
    job.feed.epoch([{"id": 101, "key": "a", "value": 1, "event": "2026-01-01T09:01:00Z"}])
    job.feed.epoch([{"id": 102, "key": "a", "value": 1, "event": "2026-01-01T00:01:00Z"}])
    query = job.run()
    assert sum(row["late"] for row in query.history()) == 1
    assert 102 not in job.odds.values("id")


def test_the_history_says_how_large_the_state_is_after_each_epoch(job: Job) -> None:
    job.stateful()
    for hour, ids in (("00", (0, 1, 2)), ("09", (3,)), ("10", (4,))):
        job.feed.epoch([{"id": i, "key": "a", "value": i, "event": f"2026-01-01T{hour}:00:00Z"} for i in ids])
    sizes = [row["state"] for row in job.run().history()]
    assert [size["rows"] for size in sizes[:3]] == [3, 4, 2]  # the third epoch forgets what is 10 minutes behind
    assert all(size["memory_bytes"] > 0 and size["disk_bytes"] >= 0 for size in sizes)


def test_a_query_without_state_has_none_in_its_history(job: Job) -> None:
    job.feed.epochs(1)
    assert [row["state"] for row in job.run().history()] == [None]


def test_a_stateful_query_with_settings_that_break_recovery_is_refused(job: Job) -> None:
    job.stateful().feed.epochs(1)
    key = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    refused = pytest.raises(ConfigurationError, match="checkpointFormatVersion=1 breaks the recovery")
    with session_with(job.spark, {key: "1"}), refused:
        job.start()


def test_a_nondeterministic_expression_in_a_stateful_query_is_refused(job: Job) -> None:
    job.stateful()
    deduplicated = job.prepare
    job.prepare = lambda frame: deduplicated(frame.withColumn("noise", F.rand()))
    with pytest.raises(ConfigurationError, match="differs at every run: rand"):
        job.start()


def test_commit_before_the_intent_is_noticed_by_the_last_look(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the commit point taken away a death between commit and intent would double rows: nothing is decided then."""
    from tpc.coordinator.spark.passes.driver import SparkPass

    honest = SparkPass.write

    def hasty(self: SparkPass, epoch: int, generation: int) -> Any:
        manifest = honest(self, epoch, generation)
        for name in {sink for sink, _ in manifest.branches()}:
            self.context.committers[name].commit(manifest.committables(name))
        return manifest

    job.feed.epochs(2)
    monkeypatch.setattr(SparkPass, "write", hasty)
    with pytest.raises(HistoryMismatchError, match="reports epoch 0 as its newest committed epoch, the log says none"):
        job.run()
    assert not any(b'"intent"' in job.log.read(slot) for slot in job.log.slots())


def test_the_log_holds_no_more_than_a_kilobyte_per_branch(job: Job) -> None:
    job.feed.epochs(1)
    job.run()
    intent = next(json.loads(job.log.read(slot)) for slot in job.log.slots() if b'"intent"' in job.log.read(slot))
    parts = intent["body"]["sinks"].values()
    assert all(len(json.dumps(branch)) < 1000 for part in parts for branch in part["branches"])
