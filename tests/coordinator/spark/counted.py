"""A program that counts rows per key in a state of one schema or another, killed at a step in a process of its own.

Run with what it is told as JSON: `{"place": ..., "schema": ..., "step": ..., "settings": {...}}`.
"""
# ruff: noqa: N803  the names of Spark's interface

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import tpc
from tests.support.folder_sink import FolderSink
from tests.support.processes import REPOSITORY
from tpc import failpoints
from tpc.chaos.servers.spark_session import spark_session
from tpc.coordinator.pipeline import Pipeline

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
COUNTED = "rows int"
COUNTED_AND_NAMED = "rows long, last string"
COUNTED_LONGER = "rows long"
COUNTED_AS_TEXT = "rows string"
LIFE_TIMEOUT_S = 180


class Counter(StatefulProcessor):
    """Counts rows per key; with the newer schema it also says which came last."""

    def __init__(self, schema: str) -> None:
        self.schema = schema

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = handle.getValueState("counted", self.schema)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        last = [name for batch in rows for name in batch["name"]]
        counted = self.state.get()
        before = 0 if counted is None else counted[0]
        value = (before + len(last), max(last))
        self.state.update(value if self.schema == COUNTED_AND_NAMED else value[:1])
        told = value[1] if self.schema == COUNTED_AND_NAMED else ""
        yield pd.DataFrame({"id": [value[0]], "last": [told]})

    def close(self) -> None:
        """Nothing is held."""


def program(spark: SparkSession, place: Path, schema: str) -> Pipeline:
    """With one more row of input."""
    source = place / "input"
    source.mkdir(exist_ok=True)
    number = len(list(source.iterdir()))
    (source / f"{number}.json").write_text(json.dumps({"key": "a", "name": f"n{number}"}) + "\n")
    rows = spark.readStream.schema("key string, name string").option("maxFilesPerTrigger", 1).json(str(source))
    counted = rows.groupBy("key").transformWithStateInPandas(Counter(schema), "id long, last string", "append", "none")
    made = tpc.pipeline("counted", checkpoint=place / "checkpoint")
    made.write(counted).to(FolderSink("rows", place / "rows"))
    return made


def live(made: Pipeline) -> None:
    """Run it until its input is used up."""
    made.start(trigger={"availableNow": True}).awaitTermination(LIFE_TIMEOUT_S)


def is_killed_at(step: str, place: Path, schema: str, **settings: str) -> None:
    """A process of its own runs it, with one more row of input, and is killed when an epoch comes to `step`."""
    told = {"place": str(place), "schema": schema, "step": step, "settings": settings}
    life = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(told)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=LIFE_TIMEOUT_S,
        check=False,
    )
    assert life.returncode == -signal.SIGKILL, life.stderr[-3000:]


def _kill(_step: str, _where: Mapping[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """The life of such a process."""
    told = json.loads(sys.argv[1])
    spark = spark_session("counted", extra=told["settings"])
    failpoints.install({told["step"]: _kill})
    live(program(spark, Path(told["place"]), told["schema"]))


if __name__ == "__main__":
    main()
