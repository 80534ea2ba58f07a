"""A driver whose cluster gets an executor while pipelines run, one that lacks what they need; writes down their end.

`python -m tests.coordinator.spark.late_executor FOLDER SETTINGS`. Of two pipelines one needs a variable, a module and a
directory, the other's sink is a class of a module that the late executor has not. When `mended` is there they go on.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql import SparkSession

import tpc
from tests.support.folder_sink import FolderSink
from tpc.chaos.servers.spark_session import spark_session
from tpc.coordinator.spark import parallelism
from tpc.coordinator.spark.query import PipelineQuery
from tpc.handles import Handle
from tpc.json import JSONObject
from tpc.sink import ExecutorNeeds, Writer
from tpc.support.deadlines import until

VARIABLE = "TPC_TEST_OF_EARLY_EXECUTORS"
MODULE = "only_early_executors_have_it"
READY, MENDED, TOLD = "ready", "mended", "told.json"
WITHIN_S = 90.0


class NeedySink(FolderSink):
    """Its writers read a variable and use a module."""

    def __init__(self, name: str, root: Path) -> None:
        super().__init__(name, root)
        self.setting = tpc.env(VARIABLE)

    def executor_needs(self) -> ExecutorNeeds:
        return ExecutorNeeds({MODULE: "early-package"})

    def writer(self, handle: Handle, schema: pyarrow.Schema, hint: JSONObject) -> Writer:
        importlib.import_module(MODULE)
        self.setting.read()
        return super().writer(handle, schema, hint)


def started(spark: SparkSession, folder: Path, sink: FolderSink) -> PipelineQuery:
    pipeline = tpc.pipeline(sink.name, checkpoint=folder / f"checkpoint-{sink.name}")
    rate = spark.readStream.format("rate").option("rowsPerSecond", 20).option("numPartitions", 2).load()
    pipeline.write(rate.selectExpr("value AS id")).to(sink)
    return pipeline.start(trigger={"processingTime": "1 second"})


def complete(query: PipelineQuery) -> int:
    return sum(epoch["status"] == "complete" for epoch in query.history())


def wait(told: str, condition: Callable[[], object]) -> None:
    if not until(lambda: bool(condition()), WITHIN_S):
        raise AssertionError(f"it never came true: {told}")


def end_of(query: PipelineQuery, sink: FolderSink) -> Mapping[str, Any]:
    wait(f"{sink.name} ends", lambda: query.exception() is not None)
    error = query.exception()
    kind, told = type(error).__name__, {name: getattr(error, name, None) for name in ("what", "epoch", "remedy")}
    return {"error": kind, **told, "seen": [handle.epoch for handle, _ in sink.branches()]}


def ids_later(query: PipelineQuery, sink: FolderSink) -> list[Any]:
    """All that readers see when one more epoch is complete."""
    before = max(handle.epoch for handle, _ in sink.branches())
    wait(f"{sink.name} goes on", lambda: max(handle.epoch for handle, _ in sink.branches()) > before)
    query.stop()
    return sorted(sink.values("id").elements())


def main() -> None:
    folder = Path(sys.argv[1])
    parallelism.COME_WITHIN_S = 1.0  # there are fewer executors than are asked for, at first
    spark = spark_session("late", directory=folder / "spark", extra=json.loads(sys.argv[2]))
    sinks = (NeedySink("needy", folder / "needy"), importlib.import_module(MODULE).EarlySink("early", folder / "early"))

    queries = [started(spark, folder, sink) for sink in sinks]
    wait("epochs are complete", lambda: all(complete(query) >= 1 for query in queries))
    (folder / READY).touch()
    told = {sink.name: end_of(query, sink) for query, sink in zip(queries, sinks, strict=True)}
    (folder / f"{TOLD}.ended").touch()

    wait("it is mended", (folder / MENDED).exists)
    for sink in sinks:
        told[sink.name] = {**told[sink.name], "ids": ids_later(started(spark, folder, sink), sink)}
    (folder / TOLD).write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main()
