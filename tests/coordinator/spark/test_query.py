"""A running pipeline tells its user of its end, whatever ends it, and gives back all that it has taken."""

from __future__ import annotations

import errno
import gc
import logging
import os
import shutil
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import tpc
from tests.coordinator.kernel.test_checkpoint_lock import HOLDER
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tests.support.processes import eventually, line, python
from tpc import failpoints
from tpc.coordinator import EngineSettings
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.engine import Engine
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.coordinator.spark.query import PipelineQuery
from tpc.coordinator.spark.running_plan import running_plan
from tpc.errors import CheckpointInUseError, ConfigurationError, FencedError, HistoryMismatchError, TransientError
from tpc.sinks import FileSink, PostgresSink

pytestmark = pytest.mark.spark

FAILURES = [
    OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    PermissionError(errno.EACCES, "Permission denied", "/log/00000000000000000001.json"),
    RuntimeError("can't start new thread"),
    MemoryError(),
    FencedError("another coordinator leads"),
]


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "feed")
    feed.epochs(1)
    return feed


def pipeline_of(feed: Feed, spark: SparkSession, root: Path) -> Pipeline:
    pipeline = tpc.pipeline("watched", checkpoint=root / "checkpoint")
    pipeline.write(feed.frame(spark)).to(FolderSink("rows", root / "rows"), select=["id"])
    return pipeline


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_whatever_its_upkeep_raises_ends_the_query_and_is_told_to_who_waits(
    failure: Exception, feed: Feed, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upkeep(_: Engine) -> None:
        raise failure

    monkeypatch.setattr(Engine, "upkeep", upkeep)
    query = pipeline_of(feed, spark, tmp_path).start()
    with pytest.raises(type(failure)):
        query.awaitTermination(120)
    assert not query.isActive
    assert query.exception() is failure
    query.stop()


def test_after_such_an_end_the_pipeline_starts_again_in_the_same_process(
    feed: Feed, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upkeep(_: Engine) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as broken:
        broken.setattr(Engine, "upkeep", upkeep)
        query = pipeline_of(feed, spark, tmp_path).start()
        with pytest.raises(OSError, match="Too many open files"):
            query.awaitTermination(120)
    again = pipeline_of(feed, spark, tmp_path).start(trigger={"availableNow": True})
    assert again.awaitTermination(120)
    assert FolderSink("rows", tmp_path / "rows").values("id") == {row["id"]: 1 for row in feed.added}


def ends(query: PipelineQuery) -> None:
    assert query.awaitTermination(120)


def is_stopped(query: PipelineQuery) -> None:
    query.processAllAvailable()
    query.stop()


def fails(query: PipelineQuery) -> None:
    query.processAllAvailable()
    query._coordinator.upkeep = None  # type: ignore[method-assign,assignment]  # calling it is an error
    with pytest.raises(TypeError):
        query.awaitTermination(120)


@pytest.mark.parametrize("comes_to_its_end", [ends, is_stopped, fails])
def test_nothing_holds_a_query_that_has_ended(
    comes_to_its_end: Callable[[PipelineQuery], None],
    feed: Feed,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither Python, which has a thread and a connection for it, nor the JVM: more than a megabyte of its heap."""
    java: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    caplog.set_level(logging.CRITICAL, logger="tpc")  # pytest would keep the traceback of what is logged
    called_by_java: dict[str, object] = gateway.gateway_property.pool.dict
    before = set(called_by_java)

    def run(root: Path) -> weakref.ref[PipelineQuery]:
        trigger = {"availableNow": True} if comes_to_its_end is ends else {"processingTime": "10 milliseconds"}
        query = pipeline_of(feed, spark, root).start(trigger=trigger)
        comes_to_its_end(query)
        return weakref.ref(query)

    def is_let_go() -> bool:
        gc.collect()
        java.java.lang.System.gc()
        return not set(called_by_java) - before

    run(tmp_path / "first")  # with it Py4J begins what it needs once: its server, a connection of the JVM's finalizer
    eventually(is_let_go, "Py4J lets the first query's function go")
    threads = set(threading.enumerate())
    held = run(tmp_path / "second")
    eventually(is_let_go, "Py4J lets the function go")
    assert held() is None
    eventually(lambda: set(threading.enumerate()) <= threads, "no thread is left")


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_is_raised_in_a_batch_ends_the_query_and_is_told_to_who_waits(
    kind: type[BaseException], feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    """A sink that calls `sys.exit`, say: Py4J answers Spark for an Exception alone."""

    def leave(*_: object) -> None:
        raise kind("out of a batch")

    failpoints.install({"epoch.prepared": leave})
    try:
        query = pipeline_of(feed, spark, tmp_path).start(trigger={"availableNow": True})
        with pytest.raises(kind, match="out of a batch"):
            query.awaitTermination(60)
    finally:
        failpoints.install({})
    assert not query.isActive


def test_a_wait_that_fails_while_the_query_runs_stops_the_query(
    feed: Feed, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.streaming.query import StreamingQuery

    def no_descriptor_left(*_: Any) -> bool:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(StreamingQuery, "awaitTermination", no_descriptor_left)
    query = pipeline_of(feed, spark, tmp_path).start()
    with pytest.raises(OSError, match="Too many open files"):
        query.awaitTermination(120)
    assert not query.isActive


def test_a_query_that_went_past_the_checkpoint_s_lock_holds_it_once_it_is_free(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    notes = tmp_path / "checkpoint" / "tpc"
    with python(HOLDER, notes) as holder:
        assert line(holder) == "held"
        query = pipeline_of(feed, spark, tmp_path).start(takeover=True)
        holder.kill()
        holder.wait(10)

        def is_met() -> bool:
            another = CheckpointLock(notes)
            try:
                another.acquire()
            except CheckpointInUseError:
                return True
            another.release()
            return False

        eventually(is_met, "a start that does not take over meets the lock")
        query.stop()


def read(frame: DataFrame, _: int) -> None:
    """A batch of somebody else's query."""
    frame.collect()


@pytest.mark.parametrize("takeover", [False, True])
@pytest.mark.parametrize("whose", ["the pipeline's", "another's"])
def test_a_start_beside_a_query_of_its_name_in_the_session_changes_nothing(
    whose: str, takeover: bool, feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    if whose == "the pipeline's":
        running: Any = pipeline_of(feed, spark, tmp_path).start()
    else:
        writer = feed.frame(spark).writeStream.foreachBatch(read).queryName("watched")
        running = writer.option("checkpointLocation", str(tmp_path / "plain")).start()
    try:
        running.processAllAvailable()
        log = tmp_path / "checkpoint" / "tpc" / "log"
        before = sorted(log.rglob("*"))
        with pytest.raises(ConfigurationError, match="a query named 'watched' runs in this Spark session") as caught:
            pipeline_of(feed, spark, tmp_path).start(takeover=takeover)
        assert "stop()" in caught.value.remedy
        assert sorted(log.rglob("*")) == before
        feed.epochs(1)
        running.processAllAvailable()
        assert running.isActive
        assert running.exception() is None
    finally:
        running.stop()
    again = pipeline_of(feed, spark, tmp_path).start(trigger={"availableNow": True})
    assert again.awaitTermination(120)
    assert FolderSink("rows", tmp_path / "rows").values("id") == {row["id"]: 1 for row in feed.added}


def test_a_query_whose_jvm_is_gone_ends_with_an_error_of_the_library(
    feed: Feed, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.streaming.query import StreamingQuery

    def gone(*_: Any) -> bool:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    monkeypatch.setattr(StreamingQuery, "awaitTermination", gone)
    query = pipeline_of(feed, spark, tmp_path).start()
    with pytest.raises(TransientError, match="JVM has ended or cannot be reached: Connection refused") as caught:
        query.awaitTermination(120)
    assert caught.value.pipeline == "watched#1"


def test_a_batch_that_has_begun_as_the_query_is_stopped_comes_to_its_end(
    feed: Feed, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stop_waits = threading.Event(), threading.Event()

    def running_when_a_stop_waits(*arguments: Any) -> Any:
        begun.set()
        assert stop_waits.wait(60)
        return running_plan(*arguments)

    monkeypatch.setattr("tpc.coordinator.spark.query.running_plan", running_when_a_stop_waits)
    query = pipeline_of(feed, spark, tmp_path).start()
    assert begun.wait(120)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    assert query._stop.is_asked.wait(60)
    stop_waits.set()  # no epoch is worked on: the engine has not heard of the batch yet
    stopping.join(60)
    assert not stopping.is_alive()
    assert [(row["epoch"], row["status"]) for row in query.history()] == [(0, "complete")]
    assert query.exception() is None
    assert sorted((tmp_path / "rows" / "prepared").glob("*")) == []


def test_a_start_that_fails_on_an_unset_variable_gives_the_checkpoint_s_lock_back(
    feed: Feed, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET_YET", raising=False)
    pipeline = pipeline_of(feed, spark, tmp_path)
    pipeline.write(feed.frame(spark)).to(PostgresSink("rows", dsn=tpc.env("NOT_SET_YET"), name="pg"), select=["id"])
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="NOT_SET_YET"):
            pipeline.start()
    again = pipeline_of(feed, spark, tmp_path).start(trigger={"availableNow": True})
    assert again.awaitTermination(120)


def test_committed_files_outlive_their_manifests_and_the_pipeline_says_what_is_gone(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = tpc.pipeline(
        "watched", checkpoint=tmp_path / "checkpoint", settings=EngineSettings(sweep_interval_s=0.0)
    )
    pipeline.write(feed.frame(spark)).to(FileSink(tmp_path / "rows", name="rows"), select=["id"])
    query = pipeline.start()
    query.processAllAvailable()
    committed = sorted((tmp_path / "rows").glob("*.parquet"))
    shutil.rmtree(tmp_path / "rows" / "_tpc" / "manifests")
    with pytest.raises(HistoryMismatchError, match="reports no committed epoch, the log says epoch 0"):
        query.awaitTermination(120)
    assert committed
    assert sorted((tmp_path / "rows").glob("*.parquet")) == committed
