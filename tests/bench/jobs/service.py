"""tpc's loop in one process: Kafka to Kafka, with a count and a sum for each customer if it is to have a state.

Reads what is there and ends, or follows the topic. What the program itself computes is that of `service_by_hand.py`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import orjson
from confluent_kafka import Message
from service_arguments import Clock, arguments, customer, gain, started, told

import tpc
from tpc.sinks import KafkaSink
from tpc.sources import KafkaSource

SCHEMA = {"key": str, "id": int, "origin": str, "dest": str, "ts": int, "gain": float}


def service_of(given: argparse.Namespace, source: str) -> tpc.Service:
    """The service, which reads the topic `source`."""
    made = tpc.service(f"bench-{source}", directory=f"{given.directory}/{source}")
    flights = made.read(KafkaSource(source, servers=given.servers))
    totals = made.state("totals") if given.state else None

    @made.each(flights)
    def computed(event: Message, out: Any) -> None:
        row = orjson.loads(event.value() or b"")
        number, late = row["id"], gain(row)
        key = customer(number)
        text = {"key": key, "id": number, "origin": row["origin"], "dest": row["dest"], "ts": row["ts"], "gain": late}
        if totals is not None:
            count, total = totals.get(key, (0, 0.0))
            totals[key] = text["count"], text["total"] = count + 1, total + late
        out.row("gains", text)

    schema = {**SCHEMA, "count": int, "total": float} if given.state else SCHEMA
    made.write("gains", schema).to(KafkaSink(given.output, servers=given.servers, compression=given.compression))
    return made


def run(service_of: Callable[[argparse.Namespace, str], tpc.Service]) -> None:
    """A first topic to warm up, then the one that is measured; or only that, for ever."""
    given = arguments()
    every = given.rows_per_epoch or tpc.seconds(given.interval_ms / 1000)
    if given.follow:
        started()
        service_of(given, given.source).run(every=every)
        return
    for source in (given.warm_up, given.source):
        service = service_of(given, source)
        began = Clock()
        service.run(every=every, until_end=True)
        told(source, began)


if __name__ == "__main__":
    run(service_of)
