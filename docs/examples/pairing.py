"""Pairs every event of type A with the event of type B that carries the same timestamp, and adds up their values.

For whoever gets two halves of one thing minutes apart, or one of them never: what waits is state, and a crash between
state and outputs would pair an event twice, or not at all.

The events come from one Kafka topic, out of order by minutes. A pair goes to a Kafka topic and to a PostgreSQL
table, in one decision per epoch; an event whose partner has not come within 5 minutes of event time is discarded:
it goes, in the same decision, to a Kafka topic for rejected events. Killed at any moment and started again with the
same arguments, the program goes on where it was; it ends when it has read what the topic held when it started.

    python docs/examples/pairing.py --kafka HOST:PORT --postgres DSN --checkpoint DIRECTORY

`docs/tutorial-pairing.md` builds this file step by step. Topics and table must be there (`pairing_tools.py feed`). `tpc
example pairing` starts servers, makes all that, kills the program five times and compares.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import KafkaOffsetsSink, KafkaSink, PostgresSink

EVENT = "type string, time timestamp, value long"
IS_EVENT = "type IN ('A', 'B') AND time IS NOT NULL AND value IS NOT NULL"

PATIENCE = "5 minutes"
NO_PARTNER = f"no partner within {PATIENCE}"
SECOND = "a second event of this type and time"

WAITING = "type string, value long"
OUTCOME = "time_us long, a long, b long, reason string"
Outcome = tuple[int, int | None, int | None, str | None]


def read(spark: SparkSession, kafka: str, topic: str, events_per_epoch: int) -> DataFrame:
    """The records of a topic: their text, and `type`, `time` and `value` as far as they could be read in it."""
    text = F.col("value").cast("string")
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", events_per_epoch)
        .load()
        .select(text.alias("text"), F.from_json(text, EVENT).alias("event"))
        .select("text", "event.*")
    )


def pair(key: tuple[Any, ...], batches: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Pair the events of one timestamp that came in one epoch, after the one that still waits, if there is one."""
    time_us = int(key[0])
    time_ms = time_us // 1000  # the unit of watermarks and timeouts
    if state.hasTimedOut:
        alone = state.get
        state.remove()
        yield outcomes([rejected(time_us, alone, NO_PARTNER)])
        return
    waiting, found = state.getOption, []
    # Spark hands over the rows of a group in any order; a repeated epoch must come out the same.
    for event in sorted(row for batch in batches for row in zip(batch["type"], batch["value"].tolist(), strict=True)):
        if waiting is None:
            waiting = event
        elif waiting[0] == event[0]:
            found.append(rejected(time_us, event, SECOND))
        else:
            values = dict([waiting, event])
            found.append((time_us, values["A"], values["B"], None))
            waiting = None
    if waiting is None:
        state.remove()
    elif time_ms < state.getCurrentWatermarkMs():
        found.append(rejected(time_us, waiting, NO_PARTNER))  # it came too late to wait
        state.remove()
    else:
        state.update(waiting)
        state.setTimeoutTimestamp(time_ms)
    yield outcomes(found)


def rejected(time_us: int, event: tuple[str, int], reason: str) -> Outcome:
    """The row of an event that finds no partner."""
    values = dict([event])
    return time_us, values.get("A"), values.get("B"), reason


def outcomes(rows: list[Outcome]) -> pd.DataFrame:
    """Rows of `OUTCOME`. As objects: pandas would turn integers next to a NULL into floats."""
    return pd.DataFrame(rows, columns=["time_us", "a", "b", "reason"], dtype="object")


def pairing(
    spark: SparkSession, kafka: str, postgres: str, checkpoint: str, name: str, events_per_epoch: int
) -> tpc.Pipeline:
    """The whole job: what is read, how it is paired, where it goes. Starts nothing."""
    records = read(spark, kafka, f"{name}.events", events_per_epoch)
    paired = (
        records.where(IS_EVENT)
        .withWatermark("time", PATIENCE)
        .withColumn("time_us", F.unix_micros("time"))
        .groupBy("time_us")
        .applyInPandasWithState(pair, OUTCOME, WAITING, "append", GroupStateTimeout.EventTimeTimeout)
        .withColumn("time", F.timestamp_micros("time_us"))
        .withColumn("text", F.lit(None).cast("string"))
    )
    no_value = F.lit(None).cast("long")
    unreadable = records.where(f"({IS_EVENT}) IS NOT TRUE").select(
        "time", no_value.alias("a"), no_value.alias("b"), "text", F.lit("not an event").alias("reason")
    )

    total = [*map(F.col, ("time", "a", "b")), (F.col("a") + F.col("b")).alias("total")]
    time_as_key = F.col("time").cast("string").alias("key")
    rejection = ["time", "a", "b", "text", "reason"]
    rejections = KafkaSink(f"{name}.rejected", servers=kafka)

    job = tpc.pipeline(name, checkpoint=checkpoint)
    (
        job.write(paired)
        .to(KafkaSink(f"{name}.pairs", servers=kafka), where="reason IS NULL", select=[time_as_key, *total])
        .to(PostgresSink("pairs", dsn=postgres), where="reason IS NULL", select=total)
        .otherwise(rejections, select=rejection)
    )
    job.write(unreadable).to(rejections, select=rejection)
    return job.offsets_to(KafkaOffsetsSink(name, servers=kafka))


def pipeline() -> tpc.Pipeline:
    """The same on the servers and in the directory that the environment names."""
    place = Path(os.environ["TPC_CHAOS_DIR"])
    spark = spark_session("pairing", directory=place / "spark")
    kafka, postgres = os.environ["TPC_KAFKA"], os.environ["TPC_POSTGRES"]
    return pairing(spark, kafka, postgres, str(place / "checkpoint"), "pairing", events_per_epoch=200)


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", required=True, help="bootstrap servers")
    parser.add_argument("--postgres", required=True, help="DSN; a password is better kept in ~/.pgpass")
    parser.add_argument("--checkpoint", required=True, help="directory for Spark's checkpoint and the intent log")
    parser.add_argument("--name", default="pairing", help="of the pipeline, its topics and its consumer group")
    parser.add_argument("--events-per-epoch", type=int, default=500)
    given = parser.parse_args()
    spark = spark_session(given.name)
    job = pairing(spark, given.kafka, given.postgres, given.checkpoint, given.name, given.events_per_epoch)
    query = job.start(trigger={"availableNow": True})
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
