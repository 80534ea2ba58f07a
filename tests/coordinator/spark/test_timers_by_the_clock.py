"""A timeout by the clock in a query of Spark: an epoch that is repeated later fires the same, at the same time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import tpc
from tests.coordinator.service.program import Die
from tests.support.feed import Feed
from tests.support.processes import eventually
from tests.support.session_settings import session_with
from tpc import failpoints
from tpc.coordinator.spark.query import PipelineQuery
from tpc.sinks import FileSink

pytestmark = pytest.mark.spark

PATIENCE_MS = 50


def waits(key: tuple[Any, ...], batches: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """A key that has waited long enough is told, with the time at which it is."""
    now_ms = state.getCurrentProcessingTimeMs()
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"key": [key[0]], "told_ms": [now_ms]})
        return
    for _ in batches:
        pass
    state.update((now_ms,))
    state.setTimeoutDuration(PATIENCE_MS)


def started(root: Path, feed: Feed, spark: SparkSession) -> PipelineQuery:
    """Not with `availableNow`: with timeouts by the clock each epoch is followed by another, without end."""
    pipeline = tpc.pipeline("waiting", checkpoint=root / "checkpoint")
    told = (
        feed.frame(spark)
        .groupBy("key")
        .applyInPandasWithState(
            waits, "key string, told_ms long", "since_ms long", "append", GroupStateTimeout.ProcessingTimeTimeout
        )
    )
    pipeline.write(told).to(FileSink(root / "rows", name="rows"))
    return pipeline.start(trigger={"processingTime": "1 second"})


def told(root: Path) -> list[tuple[str, int]]:
    rows = [row for path in (root / "rows").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    return [(row["key"], row["told_ms"]) for row in rows]


def test_a_repeated_epoch_fires_the_same_at_the_same_time(spark: SparkSession, tmp_path: Path) -> None:
    def dies(step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 1:  # no row has come for it
            raise Die(step)

    feed = Feed(tmp_path / "feed")
    feed.epoch([{"id": 0, "key": "a", "value": 0, "event": "2026-01-01T00:00:00Z"}])
    with session_with(spark, {"spark.sql.shuffle.partitions": "1"}):
        failpoints.install({"epoch.decided": dies})
        try:
            with pytest.raises(Die, match=r"epoch\.decided"):
                started(tmp_path, feed, spark).awaitTermination(120)
        finally:
            failpoints.install({})
        assert told(tmp_path) == []
        ended_ms = time.time() * 1000
        query = started(tmp_path, feed, spark)
        eventually(lambda: bool(told(tmp_path)), "the key is told")
        query.stop()
    [(key, told_ms)] = told(tmp_path)
    assert key == "a"
    assert told_ms < ended_ms
