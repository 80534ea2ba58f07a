"""What waits in the sources: of a real topic as Spark's progress tells it, and what pages say where it is not known."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tpc
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tests.support.kafka_topics import KafkaTopics
from tests.support.memory import MemoryClock
from tests.support.memory_pipeline import acting
from tpc.coordinator.kernel.listeners import Listeners
from tpc.coordinator.kernel.source_lag import SourceLag
from tpc.coordinator.operations.monitoring.metrics import Metrics
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.source_lag import SourceLagNote, SourceWatch, in_words, lag_in_words, lag_of

DEADLINE_S = 60.0
LAG = SourceLag(7, 1767225600.0, ({"orders": 1200, "returns": 30}, None))


def progress(end: Any, latest: Any) -> dict[str, Any]:
    source = {"endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}
    return {"batchId": 3, "timestamp": "2026-01-01T00:00:00.000Z", "sources": [source]}


def test_what_waits_is_what_a_topic_holds_beyond_the_batch() -> None:
    lag = lag_of(progress({"t": {"0": 10, "1": 5}, "u": {"0": 0}}, {"t": {"0": 14, "1": 6}, "u": {"0": 9}}))
    assert lag == SourceLag(3, 1767225600.0, ({"t": 5, "u": 9},))
    assert lag.known == 14


def test_a_partition_counts_from_its_first_batch_on_and_a_topic_made_anew_is_not_negative() -> None:
    assert lag_of(progress({"t": {"0": 10}}, {"t": {"0": 4, "1": 100}})).waiting == ({"t": 0},)


@pytest.mark.parametrize("said", [json.dumps, str, dict], ids=["JSON", "str", "parsed"])
def test_an_offset_is_read_in_each_form_that_versions_of_pyspark_give_it(said: Callable[[Any], Any]) -> None:
    told = progress({}, {})
    told["sources"] = [{"endOffset": said({"t": {"0": 1}}), "latestOffset": said({"t": {"0": 3}})}]
    assert lag_of(told).waiting == ({"t": 2},)


def test_of_a_table_the_transactions_are_told_that_have_begun_since() -> None:
    position = {"cluster": "7", "table": "shop.public.orders", "began": 0, "xid": 40, "next": 47}
    assert lag_of(progress(position, position)).waiting == ({"shop.public.orders": 7},)


@pytest.mark.parametrize("told", [None, {"logOffset": 4}, 17, {}, "__import__(1)"])
def test_a_source_that_tells_nothing_of_topics_is_not_known_rather_than_0(told: Any) -> None:
    lag = lag_of(progress(told, told))
    assert (lag.waiting, lag.known) == ((None,), None)
    assert in_words(lag).startswith("not known: no source")


def test_where_some_sources_tell_it_is_said_which_do_not() -> None:
    assert in_words(LAG) == "1,230 offsets; source 1 of the query does not tell"
    assert in_words(replace(LAG, waiting=LAG.waiting[:1])) == "1,230 offsets"


def test_without_a_note_it_is_said_why_nothing_is_known(tmp_path: Path) -> None:
    assert "the log does not hold it" in lag_in_words(None, None)
    assert "nothing of it is noted" in lag_in_words(None, LocalFiles(tmp_path))


def test_a_note_is_read_as_it_was_kept_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    note = SourceLagNote(tmp_path)
    assert note.read() is None
    note.keep(LAG)
    assert note.read() == LAG
    note.path.write_text(note.path.read_text()[:20])
    assert note.read() is None


def test_nothing_is_noted_where_the_checkpoint_is_not_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    note = SourceLagNote(tmp_path / "gone")
    note.keep(LAG)
    assert not note.path.parent.exists()
    assert not caplog.records


def test_each_source_that_tells_has_its_metrics_and_no_other() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, "job", ["rows"], MemoryClock())
    metrics.tell_of_sources(LAG)
    of_topic = {"pipeline": "job", "source": "0", "topic": "returns"}
    assert registry.get_sample_value("tpc_source_waiting_offsets", of_topic) == 30
    asked_at = [
        registry.get_sample_value("tpc_source_asked_timestamp_seconds", {"pipeline": "job", "source": n}) for n in "01"
    ]
    assert asked_at == [LAG.asked_at, None]


class Query:
    """A query whose progress a test tells."""

    def __init__(self, *told: Any) -> None:
        self.told = list(told)

    @property
    def lastProgress(self) -> Any:
        told = self.told.pop(0)
        if isinstance(told, Exception):
            raise told
        return told


def test_each_progress_is_told_once_and_a_query_that_cannot_be_asked_goes_on() -> None:
    first, second = progress({"t": {"0": 1}}, {"t": {"0": 3}}), progress({"t": {"0": 3}}, {"t": {"0": 3}})
    query, heard, watch = Query(None, first, first, OSError("no JVM"), {}, second), list[SourceLag](), SourceWatch()
    for _ in range(6):
        watch.look(query, heard.append)  # type: ignore[arg-type]  # it is asked for no more
    assert [lag.known for lag in heard] == [2, 0]


def test_who_fails_to_hear_of_sources_disturbs_nobody() -> None:
    heard: list[SourceLag] = []

    def fails(_: SourceLag) -> None:
        raise ValueError("a defect")

    Listeners(MemoryClock(), (), [fails, heard.append]).tell_of_sources(LAG)
    assert heard == [LAG]


# With Spark --------------------------------------------------------------------------------------------------------


@pytest.mark.stack
@pytest.mark.spark
def test_offsets_that_wait_in_a_topic_are_told_while_the_query_reads_on(
    kafka: KafkaTopics, spark: SparkSession, tmp_path: Path
) -> None:
    topic, registry = kafka.topic(partitions=1), CollectorRegistry()
    kafka.produce(topic, [(None, str(n)) for n in range(10)])
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 4)
    pipeline = tpc.pipeline("lagging", checkpoint=tmp_path / "checkpoint")
    pipeline.write(reader.load()).to(FolderSink("rows", tmp_path / "rows"), select=[F.col("offset").alias("id")])
    waited: list[float | None] = []
    until = threading.Event()

    def waiting() -> float | None:
        labels = {"pipeline": "lagging", "source": "0", "topic": topic}
        return registry.get_sample_value("tpc_source_waiting_offsets", labels)

    def hold(where: Mapping[str, Any]) -> None:
        """Batch 1 waits until batch 0 is told of: Spark tells after a batch, and is looked at once a second."""
        if where["epoch"] == 1:
            for _ in range(int(DEADLINE_S / 0.1)):
                if waiting() is not None or until.wait(0.1):
                    break
            waited.append(waiting())

    with acting("epoch.planned", hold):
        query = pipeline.start(trigger={"processingTime": "0 seconds"}, serve=tpc.Serve(registry=registry))
        query.processAllAvailable()
        query.stop()
    assert waited == [6]
    assert waiting() == 0
    noted = SourceLagNote(tmp_path / "checkpoint" / "tpc").read()
    assert noted is not None
    assert noted.waiting == ({topic: 0},)
    asked = registry.get_sample_value("tpc_source_asked_timestamp_seconds", {"pipeline": "lagging", "source": "0"})
    assert asked == noted.asked_at
    assert registry.get_sample_value("tpc_read_rows_total", {"pipeline": "lagging"}) == 10


@pytest.mark.spark
def test_of_files_it_is_noted_that_nothing_is_known(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "feed")
    feed.epochs(1)
    pipeline = tpc.pipeline("files", checkpoint=tmp_path / "checkpoint")
    pipeline.write(feed.frame(spark)).to(FolderSink("rows", tmp_path / "rows"), select=["id"])
    pipeline.start(trigger={"availableNow": True}).awaitTermination(DEADLINE_S)
    noted = SourceLagNote(tmp_path / "checkpoint" / "tpc").read()
    assert noted is not None
    assert noted.waiting == (None,)
