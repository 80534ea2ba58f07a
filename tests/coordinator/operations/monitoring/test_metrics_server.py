"""A started pipeline serves its metrics at a port of its own, for as long as its query runs, and writes its lines."""

from __future__ import annotations

import logging
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

import tpc
from tests.support.feed import Feed
from tests.support.folder_sink import FolderSink
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.errors import ConfigurationError

pytestmark = pytest.mark.spark


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    feed = Feed(tmp_path / "feed")
    feed.epochs(2)
    return feed


def pipeline_of(feed: Feed, spark: SparkSession, root: Path) -> Pipeline:
    pipeline = tpc.pipeline("served", checkpoint=root / "checkpoint")
    pipeline.write(feed.frame(spark)).to(FolderSink("rows", root / "rows"), select=["id"], where="id >= 1")
    return pipeline


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Name and values of the labels but the pipeline's -> value."""
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {
        (
            sample.name,
            tuple(value for label, value in sorted(sample.labels.items()) if label != "pipeline"),
        ): sample.value
        for sample in found
        if sample.labels.get("pipeline") == "served"
    }


def test_a_running_pipeline_is_scraped_and_its_port_is_closed_with_its_query(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    port, rows = free_port(), list[dict[str, Any]]()
    pipeline = pipeline_of(feed, spark, tmp_path).on_complete(rows.append)
    query = pipeline.start(serve=tpc.Serve(metrics=port, registry=CollectorRegistry()))
    query.processAllAvailable()
    text = scraped(port)
    found = samples(text)
    assert found["tpc_epochs_total", ("complete",)] == 2
    assert found["tpc_rows_total", ("rows",)] == 11
    assert found["tpc_unrouted_rows_total", ()] == 1
    assert found["tpc_last_complete_epoch", ()] == 1
    assert found["tpc_recoveries_total", ()] == 1
    assert found["tpc_branches_in_doubt", ("rows",)] == 0
    assert found["tpc_epoch_phase_seconds_count", ("pass",)] == 2
    assert found["tpc_epoch_phase_seconds_sum", ("pass",)] > 0
    assert str(tmp_path) not in text
    query.stop()
    with pytest.raises(urllib.error.URLError, match="refused"):
        scraped(port)
    assert [row["epoch"] for row in rows] == [0, 1]


def test_a_port_that_is_taken_is_refused_before_anything_is_written(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"metrics cannot be served at 127\.0\.0\.1:{port}") as caught:
            pipeline_of(feed, spark, tmp_path).start(serve=tpc.Serve(metrics=port))
    assert "metrics=" in caught.value.remedy
    assert not (tmp_path / "checkpoint").exists()


def test_without_prometheus_client_a_start_that_asks_for_metrics_names_the_command(
    feed: Feed, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigurationError, match="prometheus_client is not installed") as caught:
        pipeline_of(feed, spark, tmp_path).start(serve=tpc.Serve(metrics=free_port()))
    assert "pip install 'tpc[metrics]'" in caught.value.remedy
    assert not (tmp_path / "checkpoint").exists()


def test_a_start_that_is_refused_later_closes_the_port(feed: Feed, spark: SparkSession, tmp_path: Path) -> None:
    port = free_port()
    running = pipeline_of(feed, spark, tmp_path).start()
    try:
        with pytest.raises(ConfigurationError, match="runs in this Spark session"):
            pipeline_of(feed, spark, tmp_path).start(serve=tpc.Serve(metrics=port, registry=CollectorRegistry()))
        with pytest.raises(urllib.error.URLError, match="refused"):
            scraped(port)
    finally:
        running.stop()


def test_with_a_registry_alone_no_port_is_opened_and_a_restart_counts_on(
    feed: Feed, spark: SparkSession, tmp_path: Path
) -> None:
    registry = CollectorRegistry()
    for _ in range(2):
        pipeline = pipeline_of(feed, spark, tmp_path)
        query = pipeline.start(trigger={"availableNow": True}, serve=tpc.Serve(registry=registry))
        assert query.awaitTermination(120)
    assert registry.get_sample_value("tpc_epochs_total", {"pipeline": "served", "outcome": "complete"}) == 2
    assert registry.get_sample_value("tpc_recoveries_total", {"pipeline": "served"}) == 2


def test_a_started_pipeline_writes_the_lines_of_its_epochs(
    feed: Feed, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="tpc.epochs")
    assert pipeline_of(feed, spark, tmp_path).start(trigger={"availableNow": True}).awaitTermination(120)
    events = [vars(record)["event"] for record in caplog.records if record.name == "tpc.epochs"]
    assert events == ["recovered", "decided", "complete", "decided", "complete"]
