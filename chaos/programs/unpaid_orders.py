"""The events of `docs/examples/unpaid_orders.py`: 18 days in a dozen epochs, joined by pandas and by Spark in memory.

The last event of each topic is ten days later than all others, so that every order is settled or overdue in the end.
"""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check, multisets_equal
from tpc.chaos.programs.feeding import make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.program import EXAMPLES, Program
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of

ORDERS = 1200
DAYS = 18
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
END = START + timedelta(days=DAYS + 14)
"""Later than every payment by far."""
IN_TIME = pd.Timedelta(days=3)
STRAY_HOURS = 2
LAST = 1_000_000
"""The number of the last order and of the last payment, which meet nothing and stay in the state."""
IN_MEMORY_S = 300.0

Event = dict[str, Any]


def events() -> tuple[list[Event], list[Event]]:
    """Orders and payments in the order in which they are sent, up to two hours from the order of their times."""
    rng = random.Random(26)
    orders: list[Event] = []
    payments: list[Event] = []
    for number in range(ORDERS):
        at = START + timedelta(days=DAYS * number / ORDERS)
        orders.append({"id": number, "ordered_at": at, "cents": rng.randint(100, 9999)})
        for _ in range(rng.choices([0, 1, 2], [2, 9, 1])[0]):  # some pay twice, some after more than three days
            payments.append({"order": number, "paid_at": at + timedelta(seconds=rng.randrange(4 * 86400))})
    payments.sort(key=lambda one: one["paid_at"])
    payments = [{"number": number, **one} for number, one in enumerate(payments)]
    return (
        [*_astray(rng, orders, "ordered_at"), {"id": LAST, "ordered_at": END, "cents": 1}],
        [*_astray(rng, payments, "paid_at"), {"number": LAST, "order": LAST + 1, "paid_at": END}],
    )


def _astray(rng: random.Random, sent: list[Event], time: str) -> list[Event]:
    hours = timedelta(hours=STRAY_HOURS)
    return sorted(sent, key=lambda one: one[time] + rng.random() * hours)


def feed(_place: Path) -> None:
    """Topics, table and events."""
    make_topics("placed", "paid", "reminders")
    make_tables(
        "CREATE TABLE settled (id bigint, number bigint, ordered_at timestamptz NOT NULL, "
        "paid_at timestamptz NOT NULL, cents bigint NOT NULL, PRIMARY KEY (id, number))"
    )
    orders, payments = events()
    write_messages("placed", map(_as_text, orders), key="id")
    write_messages("paid", map(_as_text, payments), key="order")


def _as_text(event: Event) -> Event:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in event.items()}


def settled() -> pd.DataFrame:
    """Each order with each payment within its three days; NaN for one without."""
    orders, payments = (pd.DataFrame(sent) for sent in events())
    both = orders.merge(payments, left_on="id", right_on="order")
    waited = both["paid_at"] - both["ordered_at"]
    in_time = both[(waited >= pd.Timedelta(0)) & (waited <= IN_TIME)]
    found: pd.DataFrame = orders.merge(in_time[["id", "number", "paid_at"]], on="id", how="left")
    without_last: pd.DataFrame = found[found["id"] != LAST]
    return without_last


def expected() -> dict[str, Any]:
    """Per sink its rows."""
    found = settled()
    paid = found[found["number"].notna()].astype({"number": "int64"})
    return {
        "postgres-settled": rows_of(paid, ["id", "number", "ordered_at", "paid_at", "cents"]),
        "kafka-reminders": rows_of(found[found["number"].isna()], ["id", "ordered_at", "cents"]),
    }


def checks(place: Path) -> list[Check]:
    """The state grows, is bounded and is given back; nothing was late; and the state in memory gives the same rows."""
    history = epoch_rows(Journal(log_of(place / "checkpoint")).open())
    late = sum(row["late"] for row in history)
    found = rows_of(settled(), ["id", "number"])
    wanted = [(str(row["id"]), None if pd.isna(row["number"]) else int(row["number"])) for row in found]
    return [
        bounded([row["state"] for row in history], sum(map(len, events()))),
        Check("no event was late", late == 0, f"{late} rows were dropped"),
        multisets_equal("the state in memory gives the same rows", wanted, _in_memory(place / "in-memory")),
        _on_disk(place / "checkpoint" / "state"),
    ]


def bounded(sizes: list[dict[str, int]], events_sent: int) -> Check:
    """By the history: the state grows at first, never holds what three days do not need, and forgets in the end."""
    rows = [size["rows"] for size in sizes]
    largest, first, last = max(rows), rows[0], rows[-1]
    told = f"{first} rows at first, {largest} at most, {last} in the end, of {events_sent} events; " + ", ".join(
        f"{max(size.get(name, 0) for size in sizes) // 1000} kB {where} at most"
        for name, where in (("memory_bytes", "in memory"), ("disk_bytes", "on disk"))
    )
    return Check("the state grows, expires and is bounded", first < largest < events_sent / 2 and last == 2, told)


def _on_disk(state: Path) -> Check:
    kinds = {".changelog": "changelogs", ".zip": "snapshots", ".sst": "files of RocksDB"}
    found = {ending: [path.stat().st_size for path in state.rglob(f"*{ending}")] for ending in kinds}
    told = ", ".join(
        f"{len(found[ending])} {what} of {sum(found[ending]) // 1000} kB" for ending, what in kinds.items()
    )
    return Check("the state is in the checkpoint", bool(found[".changelog"]), told)


def _in_memory(place: Path) -> list[tuple[str, int | None]]:
    """The rows that Spark alone makes, in a process of its own; instead of them how that ended, if not well."""
    from pyarrow import parquet

    command = [sys.executable, str(EXAMPLES / "unpaid_orders.py"), "in-memory", str(place)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=IN_MEMORY_S, check=False)
    if ended.returncode:
        return [(ended.stderr[-500:], ended.returncode)]
    return [(str(row["id"]), row["number"]) for row in parquet.read_table(place / "rows").to_pylist()]


PROGRAM = Program(
    "unpaid_orders",
    servers=("kafka", "postgres"),
    epochs=ORDERS // 100 - 2,
    feed=feed,
    expected=expected,
    checks=checks,
)
