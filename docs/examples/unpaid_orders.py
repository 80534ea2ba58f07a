"""A join over three days: orders with their payments, and those that nobody has paid three days later.

For whoever joins two streams that meet days apart. The state holds every order of three days; a crash that loses part
of it, or adds an event twice, shows only days later, in a reminder to somebody who has paid. Here state, settled orders
and reminders belong to one decision, and the history says after each epoch how large the state is.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/unpaid-orders
    python docs/examples/unpaid_orders.py [history | in-memory DIRECTORY]

Reads topic `placed`, messages such as {"id": 7, "ordered_at": "2026-01-01T00:00:00Z", "cents": 250}, and topic `paid`,
such as {"number": 3, "order": 7, "paid_at": "2026-01-02T00:00:00Z"}, and ends when it has read what was there. Time is
that of the events. The topics `placed`, `paid` and `reminders` must be there, and the table `settled` (id bigint,
number bigint, ordered_at timestamptz, paid_at timestamptz, cents bigint). `tpc example unpaid_orders` starts servers,
makes all that, lets 18 days pass, kills the program five times, and compares, with Spark's state in memory too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import KafkaSink, PostgresSink

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/unpaid-orders"))

EVENTS_PER_EPOCH = 100
"""Of each topic."""
ORDER = "id long, ordered_at timestamp, cents long"
PAYMENT = "number long, `order` long, paid_at timestamp"
LATE = "12 hours"
"""How far an event may be behind the newest; without a bound nothing could ever be forgotten."""
IN_TIME = "id = `order` AND paid_at >= ordered_at AND paid_at <= ordered_at + INTERVAL 3 DAYS"
IN_MEMORY = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state"
    ".HDFSBackedStateStoreProvider",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
}


def read(spark: SparkSession, topic: str, schema: str) -> DataFrame:
    """The messages of a topic as rows."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", EVENTS_PER_EPOCH)
        .load()
        .select(F.from_json(F.col("value").cast("string"), schema).alias("event"))
        .select("event.*")
    )


def joined(spark: SparkSession) -> DataFrame:
    """Each order with each payment of its three days; without one, when these are over.

    An order can be forgotten three days after it, a payment at once: the condition says so by its bounds of time.
    """
    orders = read(spark, "placed", ORDER).withWatermark("ordered_at", LATE)
    payments = read(spark, "paid", PAYMENT).withWatermark("paid_at", LATE)
    return orders.join(payments, F.expr(IN_TIME), "left_outer").select("id", "number", "ordered_at", "paid_at", "cents")


def pipeline() -> tpc.Pipeline:
    """The job, unstarted. A pipeline keeps its state in RocksDB."""
    spark = spark_session("unpaid-orders", directory=PLACE / "spark")
    job = tpc.pipeline("unpaid-orders", checkpoint=PLACE / "checkpoint")
    (
        job.write(joined(spark))
        .to(PostgresSink("settled", dsn=POSTGRES), where="number IS NOT NULL")
        .otherwise(
            KafkaSink("reminders", servers=KAFKA),
            select=[F.col("id").cast("string").alias("key"), "id", "ordered_at", "cents"],
        )
    )
    return job


def in_memory(place: Path) -> None:
    """The same join by Spark alone, its state in the memory of the JVM: no unit, and nothing that survives a kill."""
    spark = spark_session("in-memory", directory=place / "spark", extra=IN_MEMORY)
    rows = joined(spark).select("id", "number").writeStream.format("parquet").option("path", str(place / "rows"))
    query = rows.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    if sys.argv[1:2] == ["in-memory"]:
        in_memory(Path(sys.argv[2]))
        return
    query = pipeline().start(trigger={"availableNow": True})
    query.awaitTermination()
    if sys.argv[1:] == ["history"]:
        for epoch in query.history():
            print(epoch["epoch"], epoch["rows"], epoch["state"])


if __name__ == "__main__":
    main()
