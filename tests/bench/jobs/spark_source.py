"""What both Spark jobs share, so that only their sinks differ: the session, the source, the computing."""

from __future__ import annotations

import argparse

from arguments import SCHEMA
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tpc.chaos.servers.jars import Coordinates, fetch, jar_set
from tpc.chaos.servers.spark_session import spark_session

POSTGRES_DRIVER = Coordinates((("org.postgresql", "postgresql", "42.7.14"),), transitive=False)


def session(given: argparse.Namespace) -> SparkSession:
    """A session as a production job has it: with the optimising compiler and PostgreSQL's driver."""
    jars = [*jar_set("spark-kafka"), *fetch("postgres-driver", POSTGRES_DRIVER)]
    return spark_session(
        "bench",
        directory=given.directory,
        extra={
            "spark.jars": ",".join(map(str, jars)),
            "spark.driver.memory": given.heap,
            "spark.driver.extraJavaOptions": f"-XX:+Use{given.collector}",
            # Spark measures a batch for Python after every row, unless its size has no limit; rows here are small.
            "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
            "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        },
    )


def rows(spark: SparkSession, given: argparse.Namespace) -> DataFrame:
    """The parsed and computed rows of the source."""
    read = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given.servers)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.max.poll.records", given.poll_records)
        .option("subscribe", given.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", given.rows_per_epoch)
        .load()
    )
    parsed = read.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")).select("row.*")
    return parsed.select("id", "origin", "dest", "ts", (F.col("dep_delay") - F.col("distance") / 60.0).alias("gain"))


def trigger(given: argparse.Namespace) -> dict[str, str]:
    """The interval as Spark's trigger takes it; none: an epoch begins when the one before has ended."""
    return {"processingTime": f"{given.interval_ms} milliseconds"} if given.interval_ms else {}
