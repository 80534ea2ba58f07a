"""This library: all systems are one unit, exactly once."""

from __future__ import annotations

import argparse
from pathlib import Path

from arguments import parser
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from spark_source import rows, session, trigger

import tpc
from tpc.coordinator.spark.query import PipelineQuery
from tpc.sinks import FileSink, KafkaSink, MongoSink, PostgresSink

GOOD, REJECTED = "id % 100 <> 0", "id % 100 = 0"


def arguments() -> argparse.ArgumentParser:
    """Beyond what every job is told: which sinks, and whether the query keeps state."""
    made: argparse.ArgumentParser = parser()
    made.add_argument("--sinks", default="kafka,postgres", help="of kafka, postgres, mongo, files")
    made.add_argument("--stateful", action="store_true", help="drop duplicates first, and keep a tally")
    made.add_argument("--mongo", default="", help="URI")
    return made


def deduplicated(frame: DataFrame) -> DataFrame:
    """Each id once, as far as ten minutes of the rows' own time go."""
    timed = frame.withColumn("time", F.timestamp_millis("ts")).withWatermark("time", "10 minutes")
    return timed.dropDuplicatesWithinWatermark(["id"]).drop("time")


def tally() -> list[Column | str]:
    """Columns of a merge by origin."""
    return ["origin", F.lit(1).cast("long").alias("flights")]


def start(given: argparse.Namespace) -> PipelineQuery:
    """The query."""
    computed = rows(session(given), given)
    fields = computed.columns
    frame = computed.withColumn("key", F.col("id").cast("string"))
    directory = Path(given.directory)
    pipeline = tpc.pipeline(directory.name, checkpoint=directory / "checkpoint")
    writing = pipeline.write(deduplicated(frame) if given.stateful else frame)
    sinks = given.sinks.split(",")
    for topic, where in ((given.output, GOOD), (given.rejected, REJECTED)):
        sink = KafkaSink(topic, servers=given.servers, compression=given.compression)
        writing.to(sink, where=where, select=["key", *fields], exact_floats=True)
    if "postgres" in sinks:
        writing.to(PostgresSink(given.table, dsn=given.dsn), where=GOOD, select=fields, exact_floats=True)
    if "files" in sinks:
        files = FileSink(directory / "files", format="parquet")
        writing.to(files, where=GOOD, select=fields, exact_floats=True)
    if "mongo" in sinks:
        mongo = MongoSink(
            f"{given.table}_tally", uri=given.mongo, database="bench", key="origin", merge={"flights": "add"}
        )
        writing.to(mongo, where=GOOD, select=tally())
    if given.stateful:
        table = f"{given.table}_tally"
        writing.to(PostgresSink(table, dsn=given.dsn, key="origin", merge={"flights": "add"}), select=tally())
    return pipeline.start(trigger=trigger(given))


def main() -> None:
    """Run until terminated."""
    query = start(arguments().parse_args())
    print("STARTED", flush=True)  # noqa: T201  what the harness waits for
    query.awaitTermination()


if __name__ == "__main__":
    main()
