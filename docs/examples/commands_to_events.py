"""Commands on shared objects become events: valid ones, refused ones, a table and an audit log in one decision.

For whoever lets many people change the same documents. A command is valid or not by what came before it: to modify what
is deleted is an error, and so is to delete it twice. After a crash a naive program judges a command again, by a state
that has the command in it already, and refuses what it has accepted. Here topic, table, refusals and audit log always
tell one story, and each object's part of it in the order in which the commands came.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/commands
    python docs/examples/commands_to_events.py

Reads topic `commands`, messages such as {"id": 7, "object": "o1", "action": "modify", "text": "..."} with the object
as their key, and ends when it has read what was there. The topics `commands`, `events` and `refused` must be there, and
the table `events` (line bigint GENERATED ALWAYS AS IDENTITY, id bigint PRIMARY KEY, object text, version bigint, action
text, text text). `tpc example commands_to_events` starts servers, makes all that, kills the program five times and
compares.
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
from tpc.sinks import FileSink, KafkaSink, PostgresSink

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/commands-to-events"))

COMMANDS_PER_EPOCH = 200
COMMAND = "id long, object string, action string, text string"
OUTCOME = "object string, offset long, id long, action string, text string, version long, reason string"
OBJECT = "phase string, version long"
VALID = {("absent", "create"): "live", ("live", "modify"): "live", ("live", "delete"): "deleted"}
"""(phase of the object, action) -> the phase after it. What does not stand here is refused."""


def judge(key: tuple[Any, ...], batches: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """What happens to the commands on one object that came in one epoch."""
    phase, version = state.getOption or ("absent", 0)
    outcomes = []
    # Spark hands over the rows of a group in any order; an object's commands are in one partition: by their offsets.
    commands = pd.concat(batches).sort_values("offset")[["offset", "id", "action", "text"]]
    for offset, number, action, text in commands.itertuples(index=False, name=None):
        reason = None if (phase, action) in VALID else f"{action} after {phase}"
        if reason is None:
            phase, version = VALID[phase, action], version + 1
        outcomes.append((key[0], offset, number, action, text, version, reason))
    state.update((phase, version))
    yield pd.DataFrame(outcomes, columns=["object", "offset", "id", "action", "text", "version", "reason"])


def pipeline() -> tpc.Pipeline:
    """The job, unstarted. `partition_by` and `order_by` carry the order of each object's commands into every sink."""
    spark = spark_session("commands-to-events", directory=PLACE / "spark")
    commands = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "commands")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", COMMANDS_PER_EPOCH)
        .load()
        .select("offset", F.from_json(F.col("value").cast("string"), COMMAND).alias("command"))
        .select("offset", "command.*")
    )
    outcomes = commands.groupBy("object").applyInPandasWithState(
        judge, OUTCOME, OBJECT, "append", GroupStateTimeout.NoTimeout
    )
    valid, event = "reason IS NULL", ["id", "object", "version", "action", "text"]
    job = tpc.pipeline("commands-to-events", checkpoint=PLACE / "checkpoint")
    (
        job.write(outcomes, partition_by="object", order_by="offset")
        .to(KafkaSink("events", servers=KAFKA), where=valid, select=[F.col("object").alias("key"), *event])
        .to(PostgresSink("events", dsn=POSTGRES), where=valid, select=event)
        .to(
            KafkaSink("refused", servers=KAFKA),
            where="reason IS NOT NULL",
            select=[F.col("object").alias("key"), "id", "object", "action", "reason"],
        )
        .to(FileSink(PLACE / "audit", format="json"), select=["id", "object", "action", "version", "reason"])
    )
    return job


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    pipeline().start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()
