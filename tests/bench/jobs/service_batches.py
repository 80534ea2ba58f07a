"""tpc's loop with one batch function: the work of `service.py` without a state, done by Arrow a column at a time.

Reads what is there and ends.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message
from pyarrow import json
from service import SCHEMA, run
from service_arguments import CUSTOMERS

import tpc
from tpc.sinks import KafkaSink
from tpc.sources import KafkaSource

FIELDS = [("id", pa.int64()), ("origin", pa.string()), ("dest", pa.string()), ("ts", pa.int64())]
NUMBERS = [("dep_delay", pa.float64()), ("distance", pa.float64())]
PARSED = json.ParseOptions(explicit_schema=pa.schema([*FIELDS, *NUMBERS]), unexpected_field_behavior="ignore")


def service_of(given: argparse.Namespace, flights: KafkaSource) -> tpc.Service:
    """The service, which reads the topic of `flights`."""
    made = tpc.service(f"bench-{flights.name}", directory=f"{given.directory}/{flights.name}")
    events = made.read(flights)

    @made.each_batch(events)
    def computed(came: Sequence[Message], out: Any) -> None:
        lines = b"\n".join([event.value() or b"" for event in came])
        table = json.read_json(pa.BufferReader(lines), parse_options=PARSED)
        if table.num_rows != len(came):
            raise ValueError(f"{len(came)} events are {table.num_rows} rows")  # Arrow passes over empty lines
        gains = pc.subtract(table["dep_delay"], pc.divide(table["distance"], 60.0))
        keys = pc.binary_join_element_wise("customer-", customers(table["id"]), "")
        made = pa.table([keys, *(table[name] for name, _ in FIELDS), gains], list(SCHEMA))
        for batch in made.to_batches():
            out.batch("gains", batch)

    made.write("gains", SCHEMA).to(KafkaSink(given.output, servers=given.servers, compression=given.compression))
    return made


def customers(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """The numbers of rows' keys, as text; Arrow has no remainder."""
    many = pc.multiply(numbers, 7919)
    whole = pc.multiply(pc.divide(many, CUSTOMERS), CUSTOMERS)
    return pc.cast(pc.subtract(many, whole), pa.string())


if __name__ == "__main__":
    run(service_of)
