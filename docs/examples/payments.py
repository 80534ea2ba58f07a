"""A payment per order: calls to another system, decided with the epoch and made after it, each with a key of its own.

For whoever must pay, book or mail from a stream. A call within a batch is made again when the batch is repeated, and
cannot be taken back when it is given up. Here the pipeline writes what is to be paid into a table, its outbox, as part
of the epoch; a carrier makes the calls of complete epochs and notes what came of each. Both may die at any moment.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=DSN TPC_CHAOS_DIR=/data/payments PAYMENTS_API=http://HOST:PORT/
    python docs/examples/payments.py carry &
    python docs/examples/payments.py [wait]

Reads topic `orders`, messages such as {"id": 7, "account": "a1", "cents": 250}, and ends when it has read what was
there; with `wait` when all of it is also paid, or given up. The topics `orders` and `orders.refused` must be there, and
the table `payments` (`TABLE` below). `tpc example payments` starts servers and a bank, makes all that, kills pipeline
and carrier at least five times each, and compares.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from pyspark.sql import functions as F

import tpc
from tpc.chaos.servers.spark_session import spark_session
from tpc.errors import ConfigurationError, NoEpochError
from tpc.sinks import KafkaSink, PostgresSink

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/payments"))

TOPIC, REFUSED_TOPIC = "orders", "orders.refused"
ORDERS_PER_EPOCH = 100
ORDER = "id long, account string, cents long"
TABLE = """CREATE TABLE payments (partition int, "offset" bigint, account text NOT NULL, cents bigint NOT NULL,
    state text NOT NULL DEFAULT 'waiting', refusals int NOT NULL DEFAULT 0, answer text,
    not_before timestamptz NOT NULL DEFAULT 'epoch', PRIMARY KEY (partition, "offset"))"""

AGAIN = True
"""A call whose outcome nobody knows is made again: at least once, and exactly once if the other side honours the key.
False: it is never made again, at most once; its row stays `unknown`, for a person."""
CONCURRENCY = 4
REFUSALS = 3
"""After so many a payment is `dead`, with the last answer."""
PAUSE_S = 0.2
TIMEOUT_S = 10.0

Row = dict[str, Any]
Call = Callable[[str, Row], str]


def pipeline() -> tpc.Pipeline:
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
    job = tpc.pipeline("payments", checkpoint=PLACE / "checkpoint")
    (
        job.write(orders)
        .to(
            PostgresSink("payments", dsn=POSTGRES),
            where="cents > 0",
            select=["partition", "offset", "account", "cents"],
        )
        .otherwise(KafkaSink(REFUSED_TOPIC, servers=KAFKA), select=["id", "account", "cents"])
    )
    return job


class RefusedError(Exception):
    """The other side says no, and has done nothing."""


class UnavailableError(Exception):
    """Nothing was done, and nothing is wrong with the call: later again."""


def pay(key: str, row: Row) -> str:
    """One call. Whatever else it raises: nobody knows whether it was done."""
    body = json.dumps({"account": row["account"], "cents": row["cents"]}).encode()
    request = urllib.request.Request(os.environ["PAYMENTS_API"], body, {"Idempotency-Key": key})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        if error.code in (429, 503):
            raise UnavailableError(f"{error.code}") from None
        if error.code < 500:
            raise RefusedError(f"{error.code} {error.read().decode()}") from None
        raise


def carry(call: Call, *, again: bool, forever: bool = True) -> None:
    """Make the calls of complete epochs as they come; once through them if not `forever`."""
    with ExitStack() as stack:
        dsn = os.environ["TPC_POSTGRES"]
        connections = [stack.enter_context(psycopg.connect(dsn, row_factory=dict_row)) for _ in range(CONCURRENCY)]
        alone = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        alone.execute("SET lock_timeout = '30s'")
        alone.execute("SELECT pg_advisory_lock(hashtext('payments'))")  # one carrier at a time; it goes with its owner
        alone.execute("UPDATE payments SET state = 'unknown', answer = 'the carrier died' WHERE state = 'calling'")
        pool = stack.enter_context(ThreadPoolExecutor(CONCURRENCY))
        while True:
            step = partial(carry_all, at=complete(), call=call, again=again)
            if not any(list(pool.map(step, connections))):  # all of them end before it goes on
                if not forever:
                    return
                time.sleep(PAUSE_S)


def complete() -> tpc.Positions | None:
    """Where the last complete epoch ends: what is before that is decided in all sinks, and committed."""
    try:
        return tpc.positions(PLACE / "checkpoint")
    except (NoEpochError, ConfigurationError):  # no epoch is complete yet; there is no log yet
        return None


def carry_all(db: psycopg.Connection[Row], at: tpc.Positions | None, call: Call, again: bool) -> int:
    """Payments one after the other, as long as one is due; several carry at once, each on a connection of its own."""
    if at is None:
        return 0
    ends, carried = json.dumps(at.kafka.get(TOPIC, {})), 0
    while (row := due(db, ends)) is not None:
        if not again:
            note(db, row, "calling")
        try:
            note(db, row, "done", call(f"{at.pipeline}/payments/{row['partition']}/{row['offset']}", row))
        except RefusedError as error:
            row["refusals"] += 1
            note(db, row, "waiting" if row["refusals"] < REFUSALS else "dead", str(error))
        except UnavailableError as error:
            note(db, row, "waiting", str(error))
        except (OSError, ValueError, HTTPException) as error:
            note(db, row, "waiting" if again else "unknown", f"{type(error).__name__}: {error}")
        carried += 1
    return carried


def due(db: psycopg.Connection[Row], ends: str) -> Row | None:
    """A payment of a complete epoch, locked until it is noted: if the carrier dies, it is as it was."""
    row = db.execute(
        """SELECT partition, "offset", account, cents, refusals FROM payments
           WHERE state = 'waiting' AND not_before <= now()
           AND "offset" < coalesce((%s::jsonb ->> partition::text)::bigint, 0)
           ORDER BY not_before, "offset" LIMIT 1 FOR UPDATE SKIP LOCKED""",
        (ends,),
    ).fetchone()
    if row is None:
        db.rollback()
    return row


def note(db: psycopg.Connection[Row], row: Mapping[str, Any], state: str, answer: str | None = None) -> None:
    """Durable when it returns."""
    db.execute(
        """UPDATE payments SET state = %s, answer = %s, refusals = %s, not_before = now() + %s * interval '1 second'
           WHERE partition = %s AND "offset" = %s""",
        (state, answer, row["refusals"], PAUSE_S * 2 ** row["refusals"], row["partition"], row["offset"]),
    )
    db.commit()


def wait() -> None:
    """Until nothing is left to be paid."""
    with psycopg.connect(os.environ["TPC_POSTGRES"], autocommit=True) as db:
        while db.execute("SELECT 1 FROM payments WHERE state IN ('waiting', 'calling') LIMIT 1").fetchone():
            time.sleep(PAUSE_S)


def main() -> None:
    """The carrier, until it is killed; or one life of the pipeline, until the input is read, or paid."""
    if sys.argv[1:] == ["carry"]:
        carry(pay, again=AGAIN)
    pipeline().start(trigger={"availableNow": True}).awaitTermination()
    if sys.argv[1:] == ["wait"]:
        wait()


if __name__ == "__main__":
    main()
