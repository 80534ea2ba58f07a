"""A moving average per sensor over its last 20 readings, to a Kafka topic and a PostgreSQL table in one decision.

For whoever smooths readings and raises alarms on the result. A reading that is counted twice after a crash is wrong in
the next 20 averages, and nobody can tell afterwards; here each reading is in the state once, and each average in the
topic and in the table once, whatever dies on the way.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/moving-average
    python docs/examples/moving_average.py

Reads topic `readings`, messages such as {"sensor": "s1", "number": 7, "value": 12} with the sensor as their key, and
ends when it has read what was there. The topics `readings` and `averages` and the table `averages` (sensor text, number
bigint, events bigint, average double precision) must be there. `tpc example moving_average` starts servers, makes all
that, kills the program five times and compares.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import KafkaSink, PostgresSink

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/moving-average"))

LAST = 20
READINGS_PER_EPOCH = 200
READING = "sensor string, number long, value long"
AVERAGE = "sensor string, number long, events long, average double"
WINDOW = "total long, count long, latest array<long>"


def averages(key: tuple[Any, ...], batches: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The averages after each reading of one sensor. State: sum and count of the window, and what will leave it."""
    total, count, latest = state.getOption or (0, 0, [])
    latest = list(latest)
    # Spark hands over the rows of a group in any order; a sensor's messages are in one partition: by their offsets.
    readings = pd.concat(batches).sort_values("offset")
    found = []
    for number, value in zip(readings["number"].tolist(), readings["value"].tolist(), strict=True):
        latest.append(value)
        total, count = total + value, count + 1
        if count > LAST:
            total, count = total - latest.pop(0), LAST
        found.append((key[0], number, count, total / count))
    state.update((total, count, latest))
    yield pd.DataFrame(found, columns=["sensor", "number", "events", "average"])


def pipeline() -> tpc.Pipeline:
    """The job, unstarted."""
    spark = spark_session("moving-average", directory=PLACE / "spark")
    readings = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "readings")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", READINGS_PER_EPOCH)
        .load()
        .select("offset", F.from_json(F.col("value").cast("string"), READING).alias("reading"))
        .select("offset", "reading.*")
    )
    smoothed = readings.groupBy("sensor").applyInPandasWithState(
        averages, AVERAGE, WINDOW, "append", GroupStateTimeout.NoTimeout
    )
    job = tpc.pipeline("moving-average", checkpoint=PLACE / "checkpoint")
    (
        job.write(smoothed)
        .to(KafkaSink("averages", servers=KAFKA), select=[F.col("sensor").alias("key"), "*"])
        .to(PostgresSink("averages", dsn=POSTGRES))
    )
    return job


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    pipeline().start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()
