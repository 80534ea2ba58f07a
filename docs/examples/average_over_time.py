"""A moving average over time: per sensor and minute that of the last five minutes, into Kafka and PostgreSQL.

For whoever has to say how it was at twelve o'clock, however many readings came and in whichever order. The minutes are
those of the readings, not of this machine: an average is said once, when nothing that belongs to it can come any more.
A reading that is counted twice after a crash, or lost, makes five of them wrong. `moving_average.py` has the average of
the last 20 readings, after each of them.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/averages
    python docs/examples/average_over_time.py

Reads topic `measurements`, messages such as {"sensor": "s1", "at": "2026-01-01T00:00:07Z", "value": 12}, and ends when
it has read what was there. The topics `measurements` and `averages_over_time` must be there, and the table
`averages_over_time` (sensor text, until timestamptz, events bigint, average double precision). `tpc example
average_over_time` starts servers, makes all that, kills the program five times and compares.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import functions as F

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import KafkaSink, PostgresSink

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/average-over-time"))

WINDOW, SLIDE = "5 minutes", "1 minute"
PATIENCE = "10 minutes"
"""How far a reading may be behind the newest one; what is later is dropped, and counted in the history."""
READINGS_PER_EPOCH = 200
READING = "sensor string, at timestamp, value long"


def pipeline() -> tpc.Pipeline:
    """The job, unstarted. State: sum and count of each window that is not over, five for each sensor and minute."""
    spark = spark_session("average-over-time", directory=PLACE / "spark")
    readings = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "measurements")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", READINGS_PER_EPOCH)
        .load()
        .select(F.from_json(F.col("value").cast("string"), READING).alias("reading"))
        .select("reading.*")
    )
    average = (F.col("total") / F.col("events")).alias("average")
    smoothed = (
        readings.withWatermark("at", PATIENCE)
        .groupBy("sensor", F.window("at", WINDOW, SLIDE))
        .agg(F.sum("value").alias("total"), F.count("value").alias("events"))
        .select("sensor", F.col("window.end").alias("until"), "events", average)
    )
    job = tpc.pipeline("average-over-time", checkpoint=PLACE / "checkpoint")
    (
        job.write(smoothed)
        .to(KafkaSink("averages_over_time", servers=KAFKA), select=[F.col("sensor").alias("key"), "*"])
        .to(PostgresSink("averages_over_time", dsn=POSTGRES))
    )
    return job


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    pipeline().start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()
