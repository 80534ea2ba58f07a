"""A stop in good order leaves no decided epoch to replay: the next start may be that of another program."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener

import tpc
from tests.support.folder_sink import FolderSink
from tests.support.processes import eventually
from tpc import failpoints
from tpc.coordinator import EngineSettings
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.spark import orderly_stop
from tpc.coordinator.spark.query import PipelineQuery
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.sigterm import await_end
from tpc.errors import DeterminismError, TransientError, UnknownOutcomeError
from tpc.sink import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

pytestmark = pytest.mark.spark

STOPS = 6
"""In each way; each is followed by a start of another program."""
DEADLINE_S = 60.0
OFTEN = {"processingTime": "50 milliseconds"}


@pytest.fixture(autouse=True)
def _no_failpoint_stays() -> Iterator[None]:
    yield
    failpoints.install({})


class Deployments:
    """Programs that follow one another on one checkpoint, each with another condition."""

    def __init__(self, spark: SparkSession, root: Path, *, stateful: bool) -> None:
        self.spark, self.root, self.stateful = spark, root, stateful
        self.sink = FolderSink("rows", root / "rows")
        self.settings = EngineSettings()
        self._number = 0

    def start(self, trigger: Mapping[str, Any] | None = None) -> PipelineQuery:
        """Start the next program. Every second row of an epoch is only in what every second program writes."""
        self._number += 1
        reader = self.spark.readStream.format("rate-micro-batch")
        rows = reader.option("rowsPerBatch", 4).option("startTimestamp", 0).load()
        rows = rows.dropDuplicates(["value"]) if self.stateful else rows
        pipeline = tpc.pipeline("deployed", checkpoint=self.root / "checkpoint", settings=self.settings)
        where = "value % 2 = 0" if self._number % 2 else "value >= 0"
        pipeline.write(rows).to(self.sink, select=["value"], where=where)
        return pipeline.start(trigger=OFTEN if trigger is None else trigger)

    def left_to_replay(self, query: PipelineQuery) -> list[int]:
        """The decided epochs that Spark has not committed; none where the query has ended well and in good order."""
        if (error := query.exception()) is not None:
            raise error
        decided = [row["epoch"] for row in query.history() if row["status"] in ("complete", "decided")]
        committed = [int(path.name) for path in (self.root / "checkpoint" / "commits").glob("[0-9]*")]
        return [epoch for epoch in decided if epoch > max(committed, default=-1)]


@pytest.fixture(params=[True, False], ids=["stateful", "stateless"])
def deployed(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Deployments:
    return Deployments(spark, tmp_path, stateful=request.param)


class Pause:
    """Holds the batch up at a step of the protocol, the first time after `arm`, until `end`."""

    def __init__(self, step: str) -> None:
        self.met, self._over, self._is_armed = threading.Event(), threading.Event(), False
        failpoints.install({step: self._at_step})

    def arm(self) -> None:
        self.met.clear()
        self._over.clear()
        self._is_armed = True

    def end(self) -> None:
        self._over.set()

    def _at_step(self, _: str, __: Mapping[str, Any]) -> None:
        if self._is_armed:
            self._is_armed = False
            self.met.set()
            assert self._over.wait(DEADLINE_S)


def new_epochs(query: PipelineQuery, count: int = 1) -> None:
    """Wait until so many epochs more are complete."""
    before = len(query.history())
    eventually(
        lambda: len(query.history()) >= before + count or not query.isActive, "epochs go on", timeout_s=DEADLINE_S
    )


def by_call(query: PipelineQuery) -> None:
    query.stop()


def by_signal(query: PipelineQuery) -> None:
    signalled = threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGTERM])
    signalled.start()
    await_end(query)


def by_request(query: PipelineQuery) -> None:
    StopRequest(query._coordinator.checkpoint.notes).make()
    assert query.awaitTermination(DEADLINE_S)


WAYS = pytest.mark.parametrize("stop", [by_call, by_signal, by_request])


@WAYS
def test_a_stop_at_any_moment_is_followed_by_another_program(
    stop: Callable[[PipelineQuery], None], deployed: Deployments
) -> None:
    moments = random.Random(0)
    for _ in range(STOPS):
        query = deployed.start()
        new_epochs(query)
        time.sleep(moments.random() / 4)  # any moment will do: the epoch's or one between two
        stop(query)
        assert deployed.left_to_replay(query) == []


@pytest.mark.parametrize("step", ["epoch.planned", "epoch.prepared", "epoch.decided", "epoch.completed"])
def test_a_stop_asked_for_in_the_middle_of_an_epoch_ends_after_spark_s_commit_of_it(
    step: str, deployed: Deployments
) -> None:
    pause = Pause(step)
    for _ in range(3):
        query = deployed.start()
        pause.arm()
        assert pause.met.wait(DEADLINE_S)
        before = len(query.history())
        stopping = threading.Thread(target=query.stop)
        stopping.start()
        assert query._stop.is_asked.wait(DEADLINE_S)
        pause.end()
        stopping.join(DEADLINE_S)
        assert not stopping.is_alive()
        assert deployed.left_to_replay(query) == []
        assert len(query.history()) - before <= 1, "another epoch was decided after the stop was asked for"


class Terminations(StreamingQueryListener):
    """What Spark tells its listeners of the ends of queries: the error of each, None of one that was stopped."""

    def __init__(self) -> None:
        self.told: list[str | None] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.told.append(event.exception)


def test_spark_takes_a_batch_that_begins_after_a_stop_request_as_stopped_not_failed(
    deployed: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`spark.streams.awaitAnyTermination` and listeners of the session are told by Spark alone."""
    monkeypatch.setattr(orderly_stop, "_POLL_S", 1.0)  # Spark has begun another batch by then
    listener, streams = Terminations(), deployed.spark.streams
    streams.addListener(listener)
    pause = Pause("epoch.completed")
    try:
        query = deployed.start()
        streams.resetTerminated()
        pause.arm()
        assert pause.met.wait(DEADLINE_S)
        stopping = threading.Thread(target=query.stop)
        stopping.start()
        assert query._stop.is_asked.wait(DEADLINE_S)
        pause.end()
        assert streams.awaitAnyTermination(int(DEADLINE_S))
        stopping.join(DEADLINE_S)
        eventually(lambda: bool(listener.told), "Spark tells of the end", timeout_s=DEADLINE_S)
    finally:
        streams.removeListener(listener)
    assert listener.told == [None]
    assert deployed.left_to_replay(query) == []


def test_a_stop_of_a_run_over_what_is_available_is_one_like_any_other(deployed: Deployments) -> None:
    pause = Pause("epoch.completed")
    for _ in range(3):
        pause.arm()
        query = deployed.start({"availableNow": True})
        assert pause.met.wait(DEADLINE_S)
        stopping = threading.Thread(target=query.stop)
        stopping.start()
        assert query._stop.is_asked.wait(DEADLINE_S)
        pause.end()
        stopping.join(DEADLINE_S)
        assert deployed.left_to_replay(query) == []


def test_a_stop_right_after_the_start_lets_the_replay_of_a_crash_come_to_its_end(deployed: Deployments) -> None:
    query = deployed.start()
    new_epochs(query)
    query.stop()
    newest = max(int(path.name) for path in (deployed.root / "checkpoint" / "commits").glob("[0-9]*"))
    for name in (f"{newest}", f".{newest}.crc"):  # as a crash leaves it that comes before Spark's commit
        (deployed.root / "checkpoint" / "commits" / name).unlink()
    deployed._number -= 1  # the program of before
    query = deployed.start()
    query.stop()
    assert deployed.left_to_replay(query) == []
    query = deployed.start()
    new_epochs(query)
    query.stop()
    assert deployed.left_to_replay(query) == []


def test_a_stop_tries_a_commit_again_until_its_deadline(deployed: Deployments) -> None:
    pause = Pause("epoch.decided")
    query = deployed.start()
    pause.arm()
    assert pause.met.wait(DEADLINE_S)
    deployed.sink.plant_verdict(Verdict.UNKNOWN)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    pause.end()
    assert query._stop.is_asked.wait(DEADLINE_S)
    deployed.sink.plant_verdict(None)
    stopping.join(DEADLINE_S)
    assert deployed.left_to_replay(query) == []


def test_a_stop_that_gives_a_commit_up_says_which_epoch_the_next_start_will_replay(
    deployed: Deployments, caplog: pytest.LogCaptureFixture
) -> None:
    deployed.settings = EngineSettings(stop_timeout_s=0.5)
    pause = Pause("epoch.decided")
    query = deployed.start()
    new_epochs(query)
    pause.arm()
    assert pause.met.wait(DEADLINE_S)
    deployed.sink.plant_verdict(Verdict.UNKNOWN)
    pause.end()
    query.stop()
    error = query.exception()
    assert isinstance(error, UnknownOutcomeError)
    assert f"replays epoch {error.epoch}" in error.remedy
    assert "same code and the same tables" in error.remedy
    assert f"replays epoch {error.epoch}" in caplog.text
    deployed.sink.plant_verdict(None)


def test_a_stop_whose_epoch_spark_does_not_commit_fails_with_that(
    deployed: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed.settings = EngineSettings(stop_timeout_s=0.5)
    query = deployed.start()
    new_epochs(query)
    with monkeypatch.context() as patched:
        patched.setattr(SparkLog, "is_whole_commit", lambda *_: False)
        query.stop()
    error = query.exception()
    assert isinstance(error, TransientError)
    assert error.epoch == max(row["epoch"] for row in query.history() if row["status"] == "complete")
    assert f"replays epoch {error.epoch}" in error.remedy


def test_after_a_crash_another_program_is_told_to_start_the_old_one_first(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deployed = Deployments(spark, tmp_path, stateful=True)
    query = deployed.start()
    new_epochs(query)
    query.stop()
    newest = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for name in (f"{newest}", f".{newest}.crc"):  # as a crash leaves it that comes before Spark's commit
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    with caplog.at_level(logging.WARNING):
        query = deployed.start()
        with pytest.raises(DeterminismError) as caught:
            query.awaitTermination(DEADLINE_S)
    assert caught.value.remedy.startswith("start once with the old code and the old tables")
    assert f"epoch {newest} is decided and runs again" in caplog.text
