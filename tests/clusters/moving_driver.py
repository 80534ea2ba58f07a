"""A driver in a process of its own, with a stateful query whose checkpoint is a URL: told everything by its argument.

It comes to a step of an epoch and dies there, or stands still until it is woken; or runs on to its last epoch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

import tpc
from tests.clusters.spoiling import spoil
from tpc import failpoints
from tpc.chaos.servers.spark_session import spark_session
from tpc.coordinator import SqlLog
from tpc.coordinator.spark.spark_files import SparkFiles
from tpc.errors import FencedError
from tpc.sink import Sink
from tpc.sinks import FileSink, KafkaSink, PostgresSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 20
"""Of an epoch."""
NAME = "moving"
FENCED = 86
DSN, PASSWORD = "MOVING_DSN", "MOVING_PASSWORD"
"""Variables with what no argument may show: how PostgreSQL is reached, what Kafka's user logs in with."""


def at(step: str, epoch: int, what: int) -> None:
    """Send this process the signal `what` when `epoch` comes to the step."""

    def act(name: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == epoch:
            say(name)
            os.kill(os.getpid(), what)

    failpoints.install({step: act})


def say(text: str) -> None:
    """A line for who watches."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def is_later_attempt() -> bool:
    """Whether YARN has begun this program anew: container_<cluster>_<application>_<attempt>_<number>."""
    container = os.environ.get("CONTAINER_ID")
    return container is not None and int(container.split("_")[-2]) > 1


def pipeline(given: Mapping[str, Any]) -> tpc.Pipeline:
    """Numbers into files, and into the table and the topic that are told."""
    spark = spark_session(NAME, extra=given["settings"])
    spoil(SparkFiles(given["checkpoint"], Path.cwd(), spark), given.get("spoil", ()))
    log = SqlLog(given["log"], pipeline=NAME) if "log" in given else None
    made = tpc.pipeline(NAME, checkpoint=given["checkpoint"], log=log)
    numbers = _found(spark, given["feed"]) if given.get("feed") else _counted(spark)
    written = made.write(numbers).to(FileSink(given["files"], format="parquet"), select=["value"])
    number = F.col("value")
    if "table" in given:
        written = written.to(PostgresSink(given["table"], dsn=tpc.env(DSN)), select=[number.alias(given["column"])])
    if "topic" in given:
        written.to(_topic(given["topic"]), select=[number.cast("string").alias("value")])
    return made


def _topic(told: Mapping[str, Any]) -> Sink:
    """A sink on a cluster of Kafka that asks for a password, where one is in the environment."""
    password = {"sasl.password": tpc.env(PASSWORD)} if PASSWORD in os.environ else {}
    return KafkaSink(told["name"], servers=told["servers"], client={**told["client"], **password})


def _counted(spark: SparkSession) -> DataFrame:
    """Numbers that come once each, also by the word of a state store.

    Their time begins after 0, where the watermark does: what is no later than it is late.
    """
    source = spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=ROWS, numPartitions=2, startTimestamp=1000, advanceMillisPerBatch=1000
    )
    return source.load().withWatermark("timestamp", "1 hour").dropDuplicatesWithinWatermark(["value"])


def _found(spark: SparkSession, feed: str) -> DataFrame:
    """The numbers of the files in a folder, one file an epoch."""
    return spark.readStream.schema("value long").option("maxFilesPerTrigger", 1).parquet(feed)


def main() -> int:
    """Run as the argument says; 86 when fenced."""
    given = json.loads(sys.argv[1])
    made = pipeline(given)
    if "step" in given and not is_later_attempt():
        at(given["step"], given["epoch"], signal.Signals[given["signal"]])
    try:
        query = made.start(trigger={"processingTime": "0 seconds"})
        while not query.awaitTermination(0.2):
            complete = [row["epoch"] for row in query.history() if row["status"] == "complete"]
            if complete and complete[-1] >= given["last"]:
                query.stop()
                break
    except FencedError as error:
        say(f"fenced: {error.what}")
        return FENCED
    say(f"complete {complete[-1]}")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the JVM of a session that was stopped and woken up may not answer its end
