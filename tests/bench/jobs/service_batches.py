"""tpc's loop with one batch function: the work of `service.py`, done by Arrow and pandas a column at a time.

Reads what is there and ends.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message
from pyarrow import json
from service import SCHEMA, STATE_SCHEMA, run
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
    totals = made.state("totals") if given.state else None

    @made.each_batch(events)
    def computed(came: Sequence[Message], out: Any) -> None:
        lines = b"\n".join([event.value() or b"" for event in came])
        table = json.read_json(pa.BufferReader(lines), parse_options=PARSED).combine_chunks()
        if table.num_rows != len(came):
            raise ValueError(f"{len(came)} events are {table.num_rows} rows")  # Arrow passes over empty lines
        gains = pc.subtract(table["dep_delay"], pc.divide(table["distance"], 60.0))
        keys = pc.binary_join_element_wise("customer-", customers(table["id"]), "")
        columns = [keys, *(table[name] for name, _ in FIELDS), gains]
        if totals is not None:
            columns += tallied(totals, keys.combine_chunks(), gains.to_numpy())
        made = pa.table(columns, list(STATE_SCHEMA if given.state else SCHEMA))
        for batch in made.combine_chunks().to_batches():
            out.batch("gains", batch)

    sink = KafkaSink(given.output, servers=given.servers, compression=given.compression)
    made.write("gains", STATE_SCHEMA if given.state else SCHEMA).to(sink)
    return made


def customers(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """The numbers of rows' keys, as text; Arrow has no remainder."""
    many = pc.multiply(numbers, 7919)
    whole = pc.multiply(pc.divide(many, CUSTOMERS), CUSTOMERS)
    return pc.cast(pc.subtract(many, whole), pa.string())


def tallied(totals: Any, keys: pa.Array, gains: Any) -> list[Any]:
    """How many rows each row's key has had with it, and the sum of their gains: each key is read and written once."""
    coded = keys.dictionary_encode()
    names, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    known = totals.get_all(names)
    before = [known.get(name, (0, 0.0)) for name in names]
    of_keys = pd.Series(gains).groupby(codes)
    counts = of_keys.cumcount().to_numpy() + 1 + np.array([count for count, _ in before])[codes]
    sums = of_keys.cumsum().to_numpy() + np.array([total for _, total in before])[codes]
    last = np.empty(len(names), np.int64)
    last[codes] = np.arange(len(codes))  # of several rows of a key the last one stays
    totals.update(zip(names, zip(counts[last].tolist(), sums[last].tolist(), strict=True), strict=True))
    return [counts, sums]


if __name__ == "__main__":
    run(service_of)
