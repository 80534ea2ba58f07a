"""Starts the streaming query under a pipeline: with the settings that it needs, which it takes over at its start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from tpc.coordinator.spark.plan_checks import reads_table
from tpc.coordinator.spark.settings import available_now_for_tables, settings_lock, stateful_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def start_query(
    frame: DataFrame,
    batch: Callable[[DataFrame, int], None],
    name: str,
    options: Mapping[str, str],
    trigger: Mapping[str, Any],
    *,
    stateful: bool,
) -> StreamingQuery:
    """The query over `frame` whose batches go to `batch`. Settings are changed for this moment alone."""
    writer = frame.writeStream.foreachBatch(batch).queryName(name).options(**options)
    writer = writer.trigger(**trigger) if trigger else writer
    with settings_lock, stateful_settings(frame.sparkSession) if stateful else nullcontext():
        if "availableNow" not in trigger or not reads_table(frame):
            return writer.start()
        with available_now_for_tables(frame.sparkSession) as await_initialized:
            query = writer.start()
            await_initialized(query)
            return query
