"""Orders from a Kafka topic into four systems, and what `tpc chaos run` needs to try that under faults.

    pip install 'tpc[demo]'
    tpc chaos run chaos_orders:pipeline --local-stack --minutes 2

`docs/how-to/test-your-pipeline-under-faults.md` says what happens.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Producer
from pyspark.sql import functions as F

import tpc
from tpc.chaos.flights.topics import create_topics
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import FileSink, KafkaOffsetsSink, KafkaSink, MongoSink, PostgresSink

KAFKA, POSTGRES, MONGO = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES"), tpc.env("TPC_MONGO")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/orders"))
ORDERS_PER_ROUND = 400

sent: list[dict[str, Any]] = []


def pipeline() -> tpc.Pipeline:
    """The job itself, unstarted: valid orders to four systems, the others to a topic of their own."""
    spark = spark_session("orders", directory=PLACE / "spark")
    text = F.col("value").cast("string")
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ORDERS_PER_ROUND // 4)
        .load()
        .select(text.alias("text"), F.from_json(text, "id long, customer string, cents long").alias("order"))
        .select("text", "order.*")
    )
    order = ["id", "customer", "cents"]
    job = tpc.pipeline("orders", checkpoint=PLACE / "checkpoint")
    (
        job.write(orders)
        .to(KafkaSink("orders.valid", servers=KAFKA), where="cents > 0", select=order)
        .to(PostgresSink("orders", dsn=POSTGRES), where="cents > 0", select=order)
        .to(
            MongoSink("customers", uri=MONGO, database="shop", key="customer", merge={"orders": "add", "cents": "add"}),
            where="cents > 0",
            select=["customer", F.lit(1).cast("long").alias("orders"), "cents"],
        )
        .to(FileSink(PLACE / "archive"), where="cents > 0", select=order)
        .otherwise(KafkaSink("orders.rejected", servers=KAFKA), select=[F.col("text").alias("value")])
    )
    return job.offsets_to(KafkaOffsetsSink("orders-pipeline", servers=KAFKA))


def feed(number: int) -> None:
    """Add orders before round `number`; before the first one, make the topics and the table."""
    servers = os.environ["TPC_KAFKA"]
    if number == 1:
        create_topics(servers, ["orders", "orders.valid", "orders.rejected"])
        with psycopg.connect(os.environ["TPC_POSTGRES"], connect_timeout=10) as connection:
            connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, customer text, cents bigint)")
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 3})
    for _ in range(ORDERS_PER_ROUND):
        count = len(sent)
        sent.append({"id": count, "customer": f"c{count % 7}", "cents": -1 if count % 50 == 0 else 100 + count % 90})
        producer.produce("orders", json.dumps(sent[-1]))
    if producer.flush(30):
        raise RuntimeError("the broker did not take all orders")


def expected() -> dict[str, list[dict[str, Any]]]:
    """What must be there: per sink its rows, or those of their columns that are to be compared."""
    valid = [order for order in sent if order["cents"] > 0]
    orders, cents = Counter(order["customer"] for order in valid), Counter[str]()
    for order in valid:
        cents[order["customer"]] += order["cents"]
    return {
        "kafka-orders.valid": valid,
        "postgres-orders": valid,
        "mongo-customers": [{"customer": c, "orders": n, "cents": cents[c]} for c, n in orders.items()],
        "files-archive": valid,
        "kafka-orders.rejected": [order for order in sent if order["cents"] <= 0],
    }
