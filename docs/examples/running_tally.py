"""A running tally per program, {active, inactive, last_login}, in a compacted Kafka topic and in MongoDB.

For whoever shows the state of things from a stream of changes. A tally is a sum: a change that is added twice after a
crash, or lost, is wrong for good, and with two stores each may be wrong in its own way. Here topic and collection take
each epoch's tallies in one decision: after every epoch both say the same, and it is right.

    export TPC_KAFKA=HOST:PORT TPC_MONGO=URI TPC_CHAOS_DIR=/data/running-tally
    python docs/examples/running_tally.py

Reads topic `changes`, messages such as {"program": "p1", "change": "joined", "at": "2026-01-01T00:00:00Z"} with the
program as their key, and ends when it has read what was there. The topics `changes` and `tallies` must be there, the
second one with cleanup.policy=compact. `tpc example running_tally` starts servers, makes all that, kills the program
five times and compares.
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
from tpc.sinks import KafkaSink, MongoSink

KAFKA, MONGO = tpc.env("TPC_KAFKA"), tpc.env("TPC_MONGO")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/running-tally"))

CHANGES_PER_EPOCH = 200
CHANGE = "program string, change string, at string"
TALLY = "program string, active long, inactive long, last_login string, changes long"
STATE = "active long, inactive long, last_login string, changes long"
MOVES = {"joined": (1, 0), "left": (-1, 1), "returned": (1, -1), "login": (0, 0)}
"""What a change adds to `active` and to `inactive`."""


def tally(key: tuple[Any, ...], batches: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The tally of one program after an epoch. Sums and a maximum: the order of the rows is no matter."""
    active, inactive, last_login, changes = state.getOption or (0, 0, None, 0)
    for change, at in (row for rows in batches for row in zip(rows["change"], rows["at"], strict=True)):
        active, inactive, changes = active + MOVES[change][0], inactive + MOVES[change][1], changes + 1
        if change == "login":
            last_login = max(last_login or at, at)  # ISO 8601 in UTC: its order is that of time
    state.update((active, inactive, last_login, changes))
    columns = ["program", "active", "inactive", "last_login", "changes"]
    yield pd.DataFrame([(key[0], active, inactive, last_login, changes)], columns=columns)


def pipeline() -> tpc.Pipeline:
    """The job, unstarted. `changes` grows with every tally, so that the newest of a program wins in the collection."""
    spark = spark_session("running-tally", directory=PLACE / "spark")
    changes = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "changes")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", CHANGES_PER_EPOCH)
        .load()
        .select(F.from_json(F.col("value").cast("string"), CHANGE).alias("change"))
        .select("change.*")
    )
    tallies = changes.groupBy("program").applyInPandasWithState(
        tally, TALLY, STATE, "append", GroupStateTimeout.NoTimeout
    )
    newest = dict.fromkeys(["active", "inactive", "last_login", "changes"], "replace")
    job = tpc.pipeline("running-tally", checkpoint=PLACE / "checkpoint")
    (
        job.write(tallies)
        .to(KafkaSink("tallies", servers=KAFKA, epoch_header="epoch"), select=[F.col("program").alias("key"), "*"])
        .to(MongoSink("tallies", uri=MONGO, database="tally", key="program", merge=newest, order_by="changes"))
        .to(MongoSink("tally_history", uri=MONGO, database="tally"))  # what the compaction of the topic forgets
    )
    return job


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    pipeline().start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()
