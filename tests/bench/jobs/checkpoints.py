"""Small epochs of a stateful query, in turns on checkpoints at several places, in one session.

All is told by one argument in JSON. Prints one line of JSON for each turn of a place: the milliseconds of its epochs,
of it Spark's own and those of the phases, the calls that this library made on the checkpoint's files, and the time
between the completion of the first epoch and that of the last, in which the calls were made.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.coordinator import SqlLog
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.spark_files import SparkFiles
from tpc.sinks import FileSink

POLL_S = 0.3
CALLS = ("read", "entries", "write", "move_aside", "make_durable")
SPARK_S = ("triggerExecution", "walCommit", "commitOffsets")
PHASES = ("pass", "intent", "complete")


class Calls:
    """When this library asked for one of the checkpoint's files, and what for."""

    def __init__(self) -> None:
        self.made: list[tuple[float, str]] = []
        for kind in (LocalFiles, SparkFiles):
            for name in CALLS:
                setattr(kind, name, self._counted(getattr(kind, name), name))

    def _counted(self, honest: Callable[..., Any], name: str) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self.made.append((time.time(), name))
            return honest(*given, **named)

        return counted

    def between(self, began: float, ended: float) -> dict[str, int]:
        """How often each was made."""
        names = [name for at, name in self.made if began < at <= ended]
        return {name: names.count(name) for name in sorted(set(names))}


def start(spark: Any, place: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """The query on the checkpoint of a place, which goes on from where its last turn has ended."""
    for setting in {setting for one in given["places"] for setting in one["settings"]}:
        spark.conf.unset(setting)
    for setting, value in place["settings"].items():
        spark.conf.set(setting, value)
    source = spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=given["rows"], numPartitions=2, startTimestamp=1000, advanceMillisPerBatch=1000
    )
    numbers = source.load().withWatermark("timestamp", "1 minute").dropDuplicatesWithinWatermark(["value"])
    name = place["name"]
    log = SqlLog(place["log"], pipeline=name) if place["log"] else None
    pipeline = tpc.pipeline(name, checkpoint=place["url"], log=log)
    pipeline.write(numbers).to(FileSink(Path(given["directory"]) / f"files-{name}", format="parquet"))
    return pipeline.start(trigger={"processingTime": "0 seconds"})


def turn(query: Any, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first epochs of a start do not count, nor does the last, whose last phase is told by the next."""
    began, found = time.time(), {}
    while True:
        for row in query.history():
            if row["status"] == "complete" and row["started_at"] > began and row["spark_seconds"]:
                found[row["epoch"]] = row
        counted = [found[epoch] for epoch in sorted(found)][given["skipped"] :]
        if len(counted) > given["epochs"]:
            query.stop()
            return counted[: given["epochs"]]
        if (error := query.exception()) is not None:
            raise error
        time.sleep(POLL_S)


def told(counted: list[dict[str, Any]], calls: Calls) -> dict[str, Any]:
    """What the harness computes figures from."""
    began, ended = counted[0]["completed_at"], counted[-1]["completed_at"]
    milliseconds = [
        {
            **{name: row["spark_seconds"][name] * 1e3 for name in SPARK_S},
            **{name: row["seconds"][name] * 1e3 for name in PHASES},
        }
        for row in counted
    ]
    return {
        "epochs": milliseconds,
        "rows": [row["rows"] for row in counted],
        "began": began,
        "ended": ended,
        "calls": calls.between(began, ended),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """All turns; those that warm up are told too."""
    given = json.loads(sys.argv[1])
    spark = spark_session("checkpoints", directory=Path(given["directory"]) / "spark", extra=given["settings"])
    calls = Calls()
    for number in range(given["turns"]):
        for place in given["places"]:
            found = told(turn(start(spark, place, given), given), calls)
            line = {"turn": number, "place": place["name"], **found}
            print(json.dumps(line), flush=True)  # noqa: T201  what the harness reads
    spark.stop()


if __name__ == "__main__":
    main()
