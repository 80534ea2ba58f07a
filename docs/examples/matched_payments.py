"""Orders and their payments, from two topics, matched by one plain process, whose disk may be lost at any moment.

For whoever has a small service and no cluster, on machines that come and go. What waits for its other half is the
state; it must not be lost with the machine, nor disagree with what was sent. Here both topics are read up to one cut,
and what was matched, what still waits, and how far each topic is read are one decision. The state's changes also go
into a compacted topic, and the log lies in the database: a start on an empty disk makes the state again and goes on.
An order or a payment that has waited for three days, by the time of the events, is disputed.

    export TPC_KAFKA=HOST:PORT TPC_POSTGRES=postgresql://USER@HOST/DATABASE TPC_CHAOS_DIR=/data/matched
    python docs/examples/matched_payments.py

Reads topics `shop.orders`, messages such as {"order": 7, "customer": "c1", "cents": 250, "at_ms": 1767225600000}, and
`shop.payments`, {"order": 7, "paid": 250, "at_ms": 1767229200000}; ends when it has read what was there. A message that
is no JSON ends it: see `pairing_loop.py` for a route of such. There must be the topics `shop.matched` and
`shop.disputed`, the compacted topic `shop.unmatched`, and the table `matched` (id bigint, customer text, cents bigint).
`tpc example matched_payments` starts servers, makes all that, kills the program five times, takes its disk away after
every second kill, and compares.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Message

import tpc
from tpc.coordinator import SqlLog, exit_code_for
from tpc.errors import TpcError
from tpc.sinks import KafkaChangelog, KafkaSink, PostgresSink
from tpc.sources import KafkaSource

KAFKA, POSTGRES = tpc.env("TPC_KAFKA"), tpc.env("TPC_POSTGRES")
PLACE = Path(os.environ.get("TPC_CHAOS_DIR", "/tmp/matched"))
EVENTS_PER_EPOCH = 500
PATIENCE = tpc.seconds(3 * 24 * 3600)


def body(message: Message) -> dict[str, Any]:
    """What a message says."""
    said: dict[str, Any] = json.loads(message.value() or b"")
    return said


def at_ms(event: dict[str, Any]) -> int:
    """When it happened, in milliseconds since 1970."""
    return int(event["at_ms"])


def tell(out: Any, both: dict[str, Any]) -> None:
    """An order with its payment, or one of the two alone."""
    row = {name: both.get(name) for name in ("customer", "cents", "paid")}
    out.row("matches", {"key": row["customer"], "id": both["order"], **row})


def give_up(order: int, half: dict[str, Any], ended_ms: int, out: Any) -> None:
    """What has waited too long is told alone."""
    tell(out, half)


def pipeline() -> tpc.Service:
    """The service, unstarted. Nothing in `directory` is missed when it is gone."""
    job = tpc.service("matched", directory=PLACE / "service", log=SqlLog(POSTGRES, pipeline="matched"))
    orders = job.read(KafkaSource("shop.orders", servers=KAFKA, decode=body), time=at_ms)
    payments = job.read(KafkaSource("shop.payments", servers=KAFKA, decode=body), time=at_ms)
    changelog = KafkaChangelog("shop.unmatched", servers=KAFKA)
    waiting: Any = job.state("waiting", ttl=PATIENCE, on_expiry=give_up, changelog=changelog)

    @job.each(orders, payments)
    def match(event: dict[str, Any], out: Any) -> None:
        half = waiting.get(event["order"])
        if half is None:
            waiting[event["order"]] = event
        elif half.keys() == event.keys():  # a second one of its kind is disputed, and what came first still waits
            tell(out, event)
        else:
            tell(out, {**half, **event})
            del waiting[event["order"]]

    matches = job.write("matches", {"key": str, "id": int, "customer": str, "cents": int, "paid": int})
    order = ["id", "customer", "cents"]
    matches.to(KafkaSink("shop.matched", servers=KAFKA), where=is_right, select=["key", *order])
    matches.to(PostgresSink("matched", dsn=POSTGRES), where=is_right, select=order)
    matches.otherwise(KafkaSink("shop.disputed", servers=KAFKA), select=["key", *order, "paid"])
    return job


def is_right(row: dict[str, Any]) -> bool:
    """Whether as much was paid as was asked for; of what is told alone one of both is missing."""
    return bool(row["paid"] == row["cents"])


def main() -> None:
    """One life of the program: until both topics are read, or until it is killed."""
    pipeline().run(every=EVENTS_PER_EPOCH, until_end=True)


if __name__ == "__main__":
    try:
        main()
    except TpcError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code_for(error))  # 86, taken over by another, and 87, parked: not to be started again
