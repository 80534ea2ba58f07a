"""A program that counts rows per key in states of one schema or another, killed at a step in a process of its own.

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
from typing import Any, TypeAlias

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import tpc
from tests.support.folder_sink import FolderSink
from tests.support.processes import REPOSITORY
from tpc import failpoints
from tpc.chaos.servers.spark_session import spark_session
from tpc.coordinator.spark.pipeline import Pipeline

ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
COUNTED = "rows int"
COUNTED_AND_NAMED = "rows long, last string"
COUNTED_LONGER = "rows long"
COUNTED_AS_TEXT = "rows string"
COLLECTED = {"seen": "number int", "times": "rows int"}
COLLECTED_AND_NAMED = {"seen": "number long, name string", "times": "rows long, last string"}
COLLECTED_AS_TEXT = {"seen": "number string", "times": "rows int"}
LIFE_TIMEOUT_S = 180

Schema: TypeAlias = "str | dict[str, str]"
"""Of a value; or of a list `seen` and of the values of a map `times`."""


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


class Collector(StatefulProcessor):
    """The same with a list and a map, which must agree; of what was there before the newer schema there is no name."""

    def __init__(self, schemas: dict[str, str]) -> None:
        self.schemas = schemas

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getListState("seen", self.schemas["seen"])
        self.times = handle.getMapState("times", "what string", self.schemas["times"])

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        width = 2 if self.schemas == COLLECTED_AND_NAMED else 1
        counted = self.times.getValue(("row",)) if self.times.containsKey(("row",)) else None
        before = 0 if counted is None else counted[0]
        last = [name for batch in rows for name in batch["name"]]
        self.seen.appendList([(before + number, name)[:width] for number, name in enumerate(last)])
        self.times.updateValue(("row",), (before + len(last), max(last))[:width])
        seen = list(self.seen.get())
        if [row[0] for row in seen] != list(range(before + len(last))):
            raise ValueError(f"the list has {seen}, and the map counts {before} before {last}")
        named = [row[1] for row in seen if width == 2 and row[1] is not None]
        yield pd.DataFrame({"id": [len(seen)], "last": [",".join(named)]})

    def close(self) -> None:
        """Nothing is held."""


def program(spark: SparkSession, place: Path, schema: Schema) -> Pipeline:
    """With one more row of input."""
    source = place / "input"
    source.mkdir(exist_ok=True)
    number = len(list(source.iterdir()))
    (source / f"{number}.json").write_text(json.dumps({"key": "a", "name": f"n{number}"}) + "\n")
    rows = spark.readStream.schema("key string, name string").option("maxFilesPerTrigger", 1).json(str(source))
    processor = Counter(schema) if isinstance(schema, str) else Collector(schema)
    counted = rows.groupBy("key").transformWithStateInPandas(processor, "id long, last string", "append", "none")
    made = tpc.pipeline("counted", checkpoint=place / "checkpoint")
    made.write(counted).to(FolderSink("rows", place / "rows"))
    return made


def live(made: Pipeline) -> None:
    """Run it until its input is used up."""
    made.start(trigger={"availableNow": True}).awaitTermination(LIFE_TIMEOUT_S)


def is_killed_at(step: str, place: Path, schema: Schema, **settings: str) -> None:
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
