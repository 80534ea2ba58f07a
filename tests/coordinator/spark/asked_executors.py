"""A driver on a cluster that asks its executors for what several pipelines need, and writes down what each was told.

`python -m tests.coordinator.spark.asked_executors FOLDER SETTINGS`: a process of its own, for its environment.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import tpc
from tests.support.folder_sink import FolderSink
from tpc.chaos.servers.spark_session import spark_session
from tpc.coordinator.operations import actions
from tpc.coordinator.spark.parallelism import tasks_on_a_machine
from tpc.sink import ExecutorNeeds, Sink
from tpc.sinks import FileSink, KafkaSink

ONLY_HERE = "TPC_TEST_ONLY_HERE"
OF_EACH_PROCESS = "/proc/self/cwd/out"
"""One path, and another directory for every process."""


class NeedySink(FolderSink):
    """Its writers want a package that nobody has."""

    def executor_needs(self) -> ExecutorNeeds:
        return ExecutorNeeds({"no_such_package_of_anybody": "no-such-package"})


def ask(spark: SparkSession, folder: Path, sink: Sink) -> dict[str, object]:
    pipeline = tpc.pipeline("asking", checkpoint=folder / f"checkpoint-{time.time_ns()}")
    pipeline.write(spark.readStream.format("rate").load().selectExpr("value AS id")).to(sink)
    began = time.monotonic()
    try:
        actions.check(pipeline)
    except tpc.TpcError as error:
        return {"error": type(error).__name__, "what": error.what, "remedy": error.remedy}
    return {"error": None, "seconds": time.monotonic() - began}


def main() -> None:
    folder = Path(sys.argv[1])
    spark = spark_session("asking", directory=folder / "spark", extra=json.loads(sys.argv[2]))
    shared = FileSink(folder / "shared", name="shared")
    sinks: dict[str, Callable[[], Sink]] = {
        "all is there": lambda: shared,
        "no shared directory": lambda: FileSink(OF_EACH_PROCESS, name="archive"),
        "no variable": lambda: KafkaSink("t", servers=tpc.env(ONLY_HERE), name="topic"),
        "no package": lambda: NeedySink("needy", folder / "needy"),
    }
    told = {what: ask(spark, folder, sink()) for what, sink in sinks.items()}
    python, spark.sparkContext.pythonExec = spark.sparkContext.pythonExec, "/nowhere/python"
    told["no python"] = ask(spark, folder, shared)
    spark.sparkContext.pythonExec = python
    told["tasks"] = {"at once": 2, "on a machine": tasks_on_a_machine(spark.sparkContext, 2)}
    told["left"] = {"files": sorted(path.name for path in [*folder.iterdir(), *(folder / "shared").iterdir()])}
    (folder / "told.json").write_text(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main()
