"""The readings of `docs/examples/average_over_time.py` and `average_over_time_loop.py`, the same for both programs, and
their averages by pandas' own rolling windows of time.

The last reading is a day later than all others, so that every other window is over in the end.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check
from tpc.chaos.checkers.service_state import count_keys
from tpc.chaos.programs.feeding import make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.program import Program
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of

READINGS = 2400
SENSORS = 24
STEP_S = 2
STRAY_S = 90
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
MINUTE = pd.Timedelta(minutes=1)
WINDOWS = 5
"""In which each reading counts: one ends with its minute, four later."""
AVERAGE = ["sensor", "until", "events", "average"]


def readings() -> list[dict[str, Any]]:
    """In the order in which they are sent, up to a minute and a half from that of their times; 80 minutes of them."""
    rng = random.Random(31)
    sent: list[dict[str, Any]] = []
    for number in range(READINGS):
        sensor = min(rng.randrange(SENSORS), rng.randrange(SENSORS))  # some are quiet for longer than a window
        at = START + timedelta(seconds=STEP_S * number)
        sent.append({"sensor": f"s{sensor}", "at": at, "value": rng.randint(-1000, 1000)})
    sent.sort(key=lambda one: one["at"] + timedelta(seconds=rng.randrange(STRAY_S)))
    return [*sent, {"sensor": "last", "at": START + timedelta(days=1), "value": 0}]


def _feed(measurements: str, averages_of: str) -> None:
    """Topics, table and readings."""
    make_topics(measurements, averages_of)
    make_tables(
        f"CREATE TABLE {averages_of} (sensor text, until timestamptz, events bigint NOT NULL, "
        "average double precision NOT NULL, PRIMARY KEY (sensor, until))"
    )
    write_messages(measurements, ({**one, "at": one["at"].isoformat()} for one in readings()), key="sensor")


def averages() -> pd.DataFrame:
    """Of each sensor, at the end of each minute, what five minutes of readings come to; none where there was none."""
    sent = pd.DataFrame(readings()[:-1])
    found = []
    for sensor, of_sensor in sent.groupby("sensor"):
        minutes = of_sensor.groupby(of_sensor["at"].dt.floor("min") + MINUTE)["value"].agg(["sum", "count"])
        every = pd.date_range(minutes.index.min(), minutes.index.max() + (WINDOWS - 1) * MINUTE, freq=MINUTE)
        window = minutes.reindex(every, fill_value=0).rolling("5min").sum()
        rows = window[window["count"] > 0].rename_axis("until").reset_index()
        average = rows["sum"] / rows["count"]  # of integers: exact
        found.append(rows.assign(sensor=sensor, events=rows["count"].astype("int64"), average=average))
    together: pd.DataFrame = pd.concat(found)[AVERAGE]
    return together


def expected(averages_of: str = "averages_over_time") -> dict[str, Any]:
    """Both sinks have every average."""
    rows = [{**row, "until": row["until"].to_pydatetime()} for row in rows_of(averages(), AVERAGE)]
    return {f"kafka-{averages_of}": rows, f"postgres-{averages_of}": rows}


def checks(place: Path) -> list[Check]:
    """No reading was late, and the state forgets what is over."""
    history = epoch_rows(Journal(log_of(place / "checkpoint")).open())
    late, sizes = sum(row["late"] for row in history), [row["state"]["rows"] for row in history]
    said = f"{max(sizes)} windows at most, {sizes[-1]} in the end, of {len(averages())}"
    return [
        Check("no reading was late", late == 0, f"{late} rows were dropped"),
        Check("the state has the open windows only", max(sizes) < len(averages()) and sizes[-1] == WINDOWS, said),
    ]


BESIDE = 2
"""Entries of windows that are none: their settings, and how many values were late."""


def checks_of_service(place: Path) -> list[Check]:
    """No reading was late, and the state forgets what is over."""
    late = sum(row["late"] or 0 for row in epoch_rows(Journal(log_of(place / "service")).open()))
    state, name = place / "service" / "state", "average-over-time-loop"
    left, held = count_keys(state / "averages-close.db", name), count_keys(state / "averages-open.db", name)
    return [
        Check("no reading was late", late == 0, f"{late} values were too late for a window"),
        Check("timers wait for the open windows only", left == WINDOWS, f"{left} timers wait in the end"),
        Check("the state has the open windows only", WINDOWS <= held <= WINDOWS + BESIDE, f"{held} entries in the end"),
    ]


PROGRAM = Program(
    "average_over_time",
    servers=("kafka", "postgres"),
    epochs=READINGS // 200,
    feed=lambda _place: _feed("measurements", "averages_over_time"),
    expected=expected,
    checks=checks,
    quiet=3,
)

LOOP = Program(
    "average_over_time_loop",
    servers=("kafka", "postgres"),
    epochs=READINGS // 200,
    feed=lambda _place: _feed("loop_measurements", "loop_averages"),
    expected=lambda: expected("loop_averages"),
    checks=checks_of_service,
    checked=("averages-open", "averages-close"),
    events_per_epoch=200,
    quiet=3,
)
