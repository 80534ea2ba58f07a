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
from tpc.source import SourceReader
from tpc.sources import KafkaSource

SCHEMA = {"key": str, "id": int, "origin": str, "dest": str, "ts": int, "gain": float}
STATE_SCHEMA = {**SCHEMA, "count": int, "total": float}


class TimedSource(KafkaSource):
    """Tells `clock` when it is first asked for events."""

    clock: Clock | None = None

    def reader(self) -> SourceReader:
        """See `Source`."""
        made = super().reader()
        poll, clock = made.poll, self.clock

        def first(rows: int, timeout_s: float) -> int:
            if clock is not None:
                clock.reads()
            made.poll = poll  # type: ignore[method-assign]  # from now on nothing stands between
            return poll(rows, timeout_s)

        made.poll = first  # type: ignore[method-assign]
        return made


def service_of(given: argparse.Namespace, flights: KafkaSource) -> tpc.Service:
    """The service, which reads the topic of `flights`."""
    made = tpc.service(f"bench-{flights.name}", directory=f"{given.directory}/{flights.name}")
    events = made.read(flights)
    totals = made.state("totals") if given.state else None

    @made.each(events)
    def computed(event: Message, out: Any) -> None:
        row = orjson.loads(event.value() or b"")
        number, late = row["id"], gain(row)
        key = customer(number)
        text = {"key": key, "id": number, "origin": row["origin"], "dest": row["dest"], "ts": row["ts"], "gain": late}
        if totals is not None:
            count, total = totals.get(key, (0, 0.0))
            totals[key] = text["count"], text["total"] = count + 1, total + late
        out.row("gains", text)

    sink = KafkaSink(given.output, servers=given.servers, compression=given.compression)
    made.write("gains", STATE_SCHEMA if given.state else SCHEMA).to(sink)
    return made


def run(service_of: Callable[[argparse.Namespace, KafkaSource], tpc.Service]) -> None:
    """A first topic to warm up, then the one that is measured; or only that, for ever."""
    given = arguments()
    every = given.rows_per_epoch or tpc.seconds(given.interval_ms / 1000)
    if given.follow:
        started()
        service_of(given, KafkaSource(given.source, servers=given.servers)).run(every=every)
        return
    for topic in (given.warm_up, given.source):
        source = TimedSource(topic, servers=given.servers)
        service = service_of(given, source)
        source.clock = began = Clock()
        service.run(every=every, until_end=True)
        told(topic, began)


if __name__ == "__main__":
    run(service_of)
