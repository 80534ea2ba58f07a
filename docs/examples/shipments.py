"""Shipments: orders that another program writes into a table of PostgreSQL, joined with payments from Kafka.

For whoever has half of a pipeline's input in a table. A program that remembers the last id or the last time it has seen
jumps over the row of a transaction that was slow to commit, and nobody notices. Here a position is a transaction: what
is read is finished, what is not is waited for, and the positions of table and topic are part of the epoch's decision.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/shipments
    python docs/examples/shipments.py

Reads table `orders` (id bigint, customer text, cents bigint, ordered_at timestamptz, and an indexed `xid xid8 NOT NULL
DEFAULT pg_current_xact_id()`), which somebody else writes, and topic `payments`, messages such as {"order": 7,
"paid_at": "2026-01-01T00:00:00Z"}; ends when it has read what was there. The topic `shipments` must be there too, and
the table `shipped` (id bigint, customer text, cents bigint, paid_at timestamptz). `tpc example shipments` starts
servers, makes all that, writes orders while it runs (in slow, failed and prepared transactions too), kills the program
five times and compares.
"""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import functions as F

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import KafkaSink, PostgresSink
from tpc.sources import PostgresSource

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/shipments"))

PAYMENTS_PER_EPOCH = 100
PAYMENT = "`order` long, paid_at timestamp"
LATE = "1 day"
IN_TIME = "id = `order` AND paid_at >= ordered_at AND paid_at <= ordered_at + INTERVAL 3 DAYS"


def pipeline() -> tpc.Pipeline:
    """The job, unstarted."""
    spark = spark_session("shipments", directory=PLACE / "spark")
    columns = ["id", "customer", "cents", "ordered_at"]
    orders = PostgresSource("orders", dsn=POSTGRES, columns=columns).load(spark).withWatermark("ordered_at", LATE)
    payments = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "payments")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", PAYMENTS_PER_EPOCH)
        .load()
        .select(F.from_json(F.col("value").cast("string"), PAYMENT).alias("payment"))
        .select("payment.*")
        .withWatermark("paid_at", LATE)
    )
    shipment = ["id", "customer", "cents", "paid_at"]
    job = tpc.pipeline("shipments", checkpoint=PLACE / "checkpoint")
    (
        job.write(orders.join(payments, F.expr(IN_TIME)))
        .to(KafkaSink("shipments", servers=KAFKA), select=[F.col("customer").alias("key"), *shipment])
        .to(PostgresSink("shipped", dsn=POSTGRES), select=shipment)
    )
    return job


def main() -> None:
    """One life of the program: until the input is read, or until it is killed."""
    pipeline().start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()
