"""The readings of `docs/examples/moving_average.py`, and their averages by pandas' own rolling windows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.programs.feeding import make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.program import Program

READINGS = 2400
SENSORS = 24
LAST = 20


def readings() -> list[dict[str, Any]]:
    """In the order in which they are sent; each sensor counts its own. Some sensors are quiet, some loud."""
    rng = random.Random(20)
    numbers = [0] * SENSORS
    sent = []
    for _ in range(READINGS):
        sensor = min(rng.randrange(SENSORS), rng.randrange(SENSORS))
        sent.append({"sensor": f"s{sensor}", "number": numbers[sensor], "value": rng.randint(-1000, 1000)})
        numbers[sensor] += 1
    return sent


def feed(_place: Path) -> None:
    """Topics, table and readings."""
    make_topics("readings", "averages")
    make_tables(
        "CREATE TABLE averages (sensor text, number bigint, events bigint NOT NULL, average double precision NOT NULL, "
        "PRIMARY KEY (sensor, number))"
    )
    write_messages("readings", readings(), key="sensor")


def expected() -> dict[str, Any]:
    """Per sink the averages after every reading, all of them."""
    sent = pd.DataFrame(readings())
    window = sent.groupby("sensor")["value"].rolling(LAST, min_periods=1)
    sums = window.sum().round().reset_index(level=0, drop=True)  # of integers: exact
    events = window.count().reset_index(level=0, drop=True)
    sent = sent.assign(events=events.astype("int64"), average=sums / events)
    rows = rows_of(sent, ["sensor", "number", "events", "average"])
    return {"kafka-averages": rows, "postgres-averages": rows}


PROGRAM = Program("moving_average", servers=("kafka", "postgres"), epochs=READINGS // 200, feed=feed, expected=expected)
