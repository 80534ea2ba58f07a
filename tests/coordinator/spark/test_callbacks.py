"""Spark's calls of Python go on, or are refused with a reason: a query never waits for its first batch without end."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tpc
from tests.support.feed import Feed
from tests.support.processes import eventually
from tpc.coordinator.spark import query as query_module
from tpc.coordinator.spark.callbacks import require_callbacks
from tpc.coordinator.spark.query import PipelineQuery
from tpc.errors import ConfigurationError
from tpc.sinks import FileSink

pytestmark = pytest.mark.spark

SELECTABLE = 1024


def started(spark: SparkSession, root: Path) -> PipelineQuery:
    feed = Feed(root / "feed")
    feed.epochs(1)
    pipeline = tpc.pipeline("called", checkpoint=root / "checkpoint")
    pipeline.write(feed.frame(spark)).to(FileSink(root / "rows", name="rows"), select=["id"])
    return pipeline.start(trigger={"availableNow": True})


def callback_server(spark: SparkSession) -> Any:
    gateway: Any = spark.sparkContext._gateway
    return vars(gateway)["_callback_server"]


def run_out_of_descriptors(spark: SparkSession) -> None:
    """As a process does that opens too much: a call comes, and Py4J cannot accept it."""
    require_callbacks(spark)
    server = callback_server(spark)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as client, ExitStack() as filled:
        for _ in range(100):  # no gap is left below the limit
            filled.enter_context(Path(os.devnull).open("rb"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            client.connect(server.server_socket.getsockname())
            eventually(lambda: not server.thread.is_alive(), "Py4J accepts no call any more")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_query_runs_though_py4j_had_stopped_accepting_calls_before_it(spark: SparkSession, tmp_path: Path) -> None:
    run_out_of_descriptors(spark)
    assert started(spark, tmp_path).awaitTermination(60)
    assert list((tmp_path / "rows").glob("*.parquet"))


def test_a_query_goes_on_when_py4j_stops_accepting_calls_before_its_first_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(query_module, "require_callbacks", run_out_of_descriptors)
    assert started(spark, tmp_path).awaitTermination(60)
    assert list((tmp_path / "rows").glob("*.parquet"))
    assert "for want of descriptors or threads" in caplog.text


@contextmanager
def many_files_open() -> Iterator[None]:
    """More than `select` knows numbers for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * SELECTABLE:
        pytest.skip(f"a process may have {hard} files open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * SELECTABLE), hard))
    with ExitStack() as files:
        for _ in range(SELECTABLE):
            files.enter_context(Path(os.devnull).open("rb"))
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_first_query_of_a_process_with_too_many_files_open_is_refused_until_they_are_closed(
    spark: SparkSession, tmp_path: Path
) -> None:
    gateway: Any = spark.sparkContext._gateway
    require_callbacks(spark)
    before = gateway._callback_server
    gateway._callback_server = None  # as before the first query of a process
    before.is_shutdown = True  # its `shutdown` would wait for connections that earlier queries have left
    before.server_socket.close()
    # At once: threads of earlier tests close files meanwhile, and their numbers are free then.
    with many_files_open(), pytest.raises(ConfigurationError, match="1024 or more files"):
        require_callbacks(spark)
    assert started(spark, tmp_path / "taken").awaitTermination(60)
