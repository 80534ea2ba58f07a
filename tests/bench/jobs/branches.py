"""Epochs of many partitions: what branches cost, and what it takes to finish a decided epoch of so many after a crash.

Prints one line of JSON for each number of partitions: the medians of the phases of an epoch, the size of its intent
per branch, and the seconds that recovery took with every branch of an epoch in doubt.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from arguments import parser
from pyspark.sql import functions as F
from spark_source import session

import tpc
from tpc import failpoints
from tpc.coordinator.spark.pipeline import Pipeline
from tpc.sinks import KafkaSink, PostgresSink

ROWS = 1000
EPOCHS = 4


class CrashError(Exception):
    """Stands for the death of the driver right after a decision."""


def pipeline(given: argparse.Namespace, partitions: int) -> Pipeline:
    """Kafka and PostgreSQL, `ROWS` rows in each partition."""
    source = session(given).readStream.format("rate-micro-batch")
    frame = source.option("rowsPerBatch", partitions * ROWS).option("numPartitions", partitions).load()
    directory = Path(given.directory)
    made = tpc.pipeline(f"{directory.name}-{partitions}", checkpoint=directory / f"checkpoint-{partitions}")
    key = F.col("value").cast("string")
    (
        made.write(frame)
        .to(KafkaSink(given.output, servers=given.servers), select=[key.alias("key"), key.alias("value")])
        .to(PostgresSink(given.table, dsn=given.dsn), select=[F.col("value").alias("id")])
    )
    return made


def crash_when_decided(at: int) -> Any:
    """An action of a failpoint."""

    def action(_step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == at:
            raise CrashError

    return action


def measure(given: argparse.Namespace, partitions: int) -> dict[str, Any]:
    """The figures of one number of partitions."""
    made = pipeline(given, partitions)
    failpoints.install({"epoch.decided": crash_when_decided(EPOCHS)})
    query = made.start()
    with suppress(CrashError):
        query.awaitTermination()
    failpoints.install({})
    if query.history()[-1]["status"] == "complete":
        raise RuntimeError(f"the epoch {EPOCHS} of {partitions} partitions is not in doubt: {query.history()[-1]}")
    complete = [row for row in query.history() if row["status"] == "complete"][1:]
    phases = {
        name: statistics.median(row["seconds"].get(name, 0.0) for row in complete) for name in complete[0]["seconds"]
    }
    intents = [path.stat().st_size for path in (made.checkpoint.notes / "log").iterdir() if path.is_file()]
    coordinator = made.coordinator()
    began = time.perf_counter()
    coordinator.finish()
    recovery_s = time.perf_counter() - began
    coordinator.close()
    return {
        "partitions": partitions,
        **{f"{name}_s": round(seconds, 4) for name, seconds in phases.items()},
        "intent_bytes_per_branch": round(max(intents) / (2 * partitions)),
        "recovery_s": round(recovery_s, 3),
    }


def main() -> None:
    """Every number of partitions."""
    arguments = parser()
    arguments.add_argument("--partitions", type=int, nargs="+", default=[1, 10, 100, 1000])
    given = arguments.parse_args()
    for partitions in given.partitions:
        print(json.dumps(measure(given, partitions)), flush=True)  # noqa: T201  what the harness reads


if __name__ == "__main__":
    main()
