"""A payment per order: calls to another system, decided with the epoch and made after it, each with a key of its own.

For whoever must pay, book or mail from a stream. A call within a batch is made again when the batch is repeated, and
cannot be taken back when it is given up. Here an order's payment is a row for an `EffectSink`: decided with the epoch,
kept in an outbox, and called when the epoch is complete. Whatever dies at any moment, each payment is made once, since
the bank honours the key of a call.

    export TPC_KAFKA=HOST:PORT TPC_CHAOS_DIR=/data/payments PAYMENTS_API=http://HOST:PORT/
    python docs/examples/payments.py [wait]

Reads topic `orders`, messages such as {"id": 7, "account": "a1", "cents": 250}, and ends when it has read what was
there; with `wait` when all of it is also paid, or left for a person (`tpc effects /data/payments/outbox`). The topics
`orders` and `orders.refused` must be there. `tpc example payments` starts a server and a bank, makes all that, kills
the pipeline between its steps and within its calls, and compares.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from pyspark.sql import functions as F

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.sinks import Effect, EffectRefusedError, EffectSink, EffectUnavailableError, KafkaSink

KAFKA = tpc.env("TPC_KAFKA")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/payments"))
TOPIC, REFUSED_TOPIC = "orders", "orders.refused"
ORDERS_PER_EPOCH = 100
ORDER = "id long, account string, cents long"
TIMEOUT_S = 10.0


def pay(payment: Effect) -> str:
    """One call. Whatever else it raises than those two errors: nobody knows whether it was done."""
    body = json.dumps({"account": payment.row["account"], "cents": payment.row["cents"]}).encode()
    request = urllib.request.Request(os.environ["PAYMENTS_API"], body, {"Idempotency-Key": payment.key})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        if error.code in (429, 503):
            raise EffectUnavailableError(f"{error.code}") from None
        if error.code < 500:
            raise EffectRefusedError(f"{error.code} {error.read().decode()}") from None
        raise


def pipeline(*, wait: bool = False) -> tpc.Pipeline:
    """The job, unstarted. An order's place in the topic names its payment: it is the same however often it is read."""
    spark = spark_session("payments", directory=PLACE / "spark")
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", os.environ["TPC_KAFKA"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ORDERS_PER_EPOCH)
        .load()
        .select("partition", "offset", F.from_json(F.col("value").cast("string"), ORDER).alias("order"))
        .select("partition", "offset", "order.*")
    )
    outbox = PLACE / "outbox"
    outbox.mkdir(parents=True, exist_ok=True)
    payments = EffectSink(
        "payments",
        outbox,
        call=pay,
        key=["partition", "offset"],
        guarantee="at-least-once",  # and exactly once, since the bank honours the key
        wait=wait,
    )
    job = tpc.pipeline("payments", checkpoint=PLACE / "checkpoint")
    (
        job.write(orders)
        .to(payments, where="cents > 0", select=["partition", "offset", "account", "cents"])
        .otherwise(KafkaSink(REFUSED_TOPIC, servers=KAFKA), select=["id", "account", "cents"])
    )
    return job


def main() -> None:
    """One life: until the input is read, or paid."""
    pipeline(wait=sys.argv[1:] == ["wait"]).start(trigger={"availableNow": True}).awaitTermination()


if __name__ == "__main__":
    main()
