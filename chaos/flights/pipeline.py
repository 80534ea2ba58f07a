"""The main job: a year of flights, each paired with its weather, into four systems as one unit per epoch.

An ordinary program of a user of this library. It reads two Kafka topics, drops duplicates, pairs each flight with
the weather report of its airport and hour (both out of order, some without a partner), and writes two Kafka topics,
two PostgreSQL tables, a MongoDB collection and Parquet files with one decision per epoch. Killed at any moment and
started again with the same arguments it goes on where it was; it ends when it has read what the topics held when it
started.

Servers are found in TPC_KAFKA, TPC_POSTGRES and TPC_MONGO. Topics and tables must be there (`targets`).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tpc
from tpc.chaos.flights.targets import (
    AIRPORTS,
    CARRIERS_TABLE,
    CONSUMER_GROUP,
    DATABASE,
    ENRICHED_TOPIC,
    FLIGHTS_TABLE,
    REJECTED_TOPIC,
)
from tpc.chaos.flights.topics import FLIGHTS_TOPIC, WEATHER_TOPIC
from tpc.chaos.servers.spark_session import spark_session
from tpc.coordinator.operations.supervision.exit_codes import exit_code_for
from tpc.settings import resolve
from tpc.sinks import FileSink, KafkaOffsetsSink, KafkaSink, MongoSink, PostgresSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from tpc.coordinator.spark.query import PipelineQuery

NAME = "flights"
WATERMARK_DELAY_HOURS = 12

FLIGHT = (
    "flight_id string, time string, carrier string, flight long, origin string, dest string, distance long, "
    "dep_delay long, arr_delay long, unreadable string"
)
REPORT = "origin string, time string, temp double, wind_speed double, visib double, unreadable string"


def start(
    spark: SparkSession, checkpoint: Path, files: Path, flights_per_epoch: int, reports_per_epoch: int
) -> PipelineQuery:
    """The whole job: what is read, how it is paired, where it goes. Recovers first, then runs to the input's end."""
    from pyspark.sql import functions as fn

    kafka, postgres, mongo = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES"), tpc.env("TPC_MONGO")
    flights = read(spark, FLIGHTS_TOPIC, FLIGHT, flights_per_epoch).withColumn("reason", why_no_flight())
    reports = read(spark, WEATHER_TOPIC, REPORT, reports_per_epoch).withColumn("reason", why_no_report())

    paired = fn.col("report_hour").isNotNull()
    flight = ["flight_id", "time", "carrier", "flight", "origin", "dest", "distance", "dep_delay", "arr_delay"]
    enriched = [*flight, "temp", "wind_speed", "visib"]
    delay = fn.coalesce("dep_delay", fn.lit(0)).alias("delay_sum")
    one = fn.lit(1).cast("long").alias("flights")
    rejection = ["key", "reason", "source", "text"]

    rejected = KafkaSink(REJECTED_TOPIC, servers=kafka)
    pipeline = tpc.pipeline(NAME, checkpoint=checkpoint)
    (
        pipeline.write(pair(flights, reports))
        .to(
            KafkaSink(ENRICHED_TOPIC, servers=kafka, epoch_header="epoch"),
            where=paired,
            select=[fn.col("flight_id").alias("key"), *enriched],
        )
        .to(PostgresSink(FLIGHTS_TABLE, dsn=postgres), where=paired, select=enriched)
        .to(
            PostgresSink(CARRIERS_TABLE, dsn=postgres, key="carrier", merge={"flights": "add", "delay_sum": "add"}),
            where=paired,
            select=["carrier", one, delay],
        )
        .to(
            MongoSink(
                AIRPORTS, uri=mongo, database=DATABASE, key="origin", merge={"flights": "add", "delay_sum": "add"}
            ),
            where=paired,
            select=["origin", one, delay],
        )
        .to(FileSink(files, format="parquet"), where=paired, select=enriched)
        .otherwise(rejected, select=rejection)
    )
    pipeline.write(broken(flights, reports)).to(rejected, select=rejection)
    pipeline.offsets_to(KafkaOffsetsSink(CONSUMER_GROUP, servers=kafka))
    return pipeline.start(trigger={"availableNow": True})


def read(spark: SparkSession, topic: str, schema: str, per_epoch: int) -> DataFrame:
    """The records of a topic: where each stands, its text, and as `record` what of `schema` could be read in it."""
    from pyspark.sql import functions as fn

    text = fn.col("value").cast("string")
    record = fn.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "unreadable"})
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", resolve(tpc.env("TPC_KAFKA")))
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", per_epoch)
        .load()
        .select(
            fn.concat_ws("/", "topic", "partition", "offset").alias("source"),
            text.alias("text"),
            record.alias("record"),
        )
        .withColumn("time", fn.try_to_timestamp("record.time"))
    )


def why_no_flight() -> Column:
    """Why a record is no flight; NULL when it is one."""
    from pyspark.sql import functions as fn

    required = ["flight_id", "time", "carrier", "flight", "origin", "dest", "distance"]
    return (
        fn.when(fn.col("record").isNull() | fn.col("record.unreadable").isNotNull(), "unreadable")
        .when(fn.greatest(*[fn.col(f"record.{name}").isNull() for name in required]), "missing field")
        .when(fn.col("time").isNull() | (fn.col("record.distance") <= 0), "impossible value")
    )


def why_no_report() -> Column:
    """Why a record is no weather report; NULL when it is one. Temperatures are in degrees Fahrenheit."""
    from pyspark.sql import functions as fn

    temperature_is_possible = fn.coalesce("record.temp", fn.lit(0.0)).between(-130, 140)
    return (
        fn.when(fn.col("record").isNull() | fn.col("record.unreadable").isNotNull(), "unreadable")
        .when(fn.col("record.origin").isNull() | fn.col("record.time").isNull(), "missing field")
        .when(fn.col("time").isNull() | ~temperature_is_possible, "impossible value")
    )


def pair(flights: DataFrame, reports: DataFrame) -> DataFrame:
    """Each flight once, with the weather of its airport and hour: NULL for a flight whose report never came.

    Event time is the hour. A flight waits for its report, and is remembered for the sake of its duplicates, until
    the watermark has passed its hour; then its state is dropped.
    """
    from pyspark.sql import functions as fn

    delay = f"{WATERMARK_DELAY_HOURS} hours"
    hour = fn.date_trunc("hour", "time").alias("hour")
    columns = ["flight_id", "carrier", "flight", "origin", "dest", "distance", "dep_delay", "arr_delay"]
    once = (
        flights.where("reason IS NULL")
        .select(*[f"record.{name}" for name in columns], "time", hour)
        .withWatermark("hour", delay)
        .dropDuplicatesWithinWatermark(["flight_id"])
    )
    weather = (
        reports.where("reason IS NULL")
        .select(
            fn.col("record.origin").alias("report_origin"),
            hour.alias("report_hour"),
            "record.temp",
            "record.wind_speed",
            "record.visib",
        )
        .withWatermark("report_hour", delay)
    )
    same = (fn.col("origin") == fn.col("report_origin")) & (fn.col("hour") == fn.col("report_hour"))
    nothing = fn.lit(None).cast("string")
    return once.join(weather, on=same, how="left_outer").select(
        "*",
        fn.col("flight_id").alias("key"),
        fn.lit("no weather report").alias("reason"),
        nothing.alias("source"),
        nothing.alias("text"),
    )


def broken(flights: DataFrame, reports: DataFrame) -> DataFrame:
    """The records of both topics that cannot be used, with where they stand and why."""
    from pyspark.sql import functions as fn

    columns = [fn.col("source").alias("key"), *map(fn.col, ("reason", "source", "text"))]
    everything = flights.select(*columns).union(reports.select(*columns))
    return everything.where("reason IS NOT NULL")


def main() -> None:
    """One life of the pipeline: until the input is consumed, or until it is killed."""
    parser = argparse.ArgumentParser(prog="flights_pipeline", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--files", type=Path, required=True, help="directory for the Parquet files")
    parser.add_argument("--scratch", type=Path, required=True, help="directory for Spark's temporary files")
    parser.add_argument("--flights-per-epoch", type=int, default=12_000)
    parser.add_argument("--reports-per-epoch", type=int, default=1_000)
    parser.add_argument("--spark", type=json.loads, default={}, help="settings of Spark, in JSON: its master, say")
    given = parser.parse_args()
    spark = spark_session(NAME, directory=given.scratch, extra=given.spark)
    try:
        query = start(spark, given.checkpoint, given.files, given.flights_per_epoch, given.reports_per_epoch)
        query.awaitTermination()
    except tpc.TpcError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(exit_code_for(error))  # the supervisor restarts neither a fenced nor a parked pipeline
    spark.stop()


if __name__ == "__main__":
    main()
