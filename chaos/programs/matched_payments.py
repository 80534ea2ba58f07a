"""The orders and payments of `docs/examples/matched_payments.py`, matched by pandas; and its disk, which is lost.

What waits in the end, and until when, is compared three times: in the state, in its changelog, and in a state that one
more life has made of the changelog alone.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check, tallies_equal
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.service_state import plain, read_store
from tpc.chaos.programs.feeding import COMPACTED, make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.kill_plan import KILLS
from tpc.chaos.programs.program import EXAMPLES, Program
from tpc.chaos.running.owned_processes import run
from tpc.chaos.user.directory import VARIABLE
from tpc.errors import LocalServerError

ORDERS = 1500
EVENTS_PER_EPOCH = 200
CUSTOMERS = 40
UNPAID_EVERY, DISPUTED_EVERY = 11, 13
START_MS = 1_767_225_600_000
STEP_MS = 10 * 60_000
"""Between two orders: all of them take ten days."""
DAY_MS = 24 * 3_600_000
PATIENCE_MS = 3 * DAY_MS
WITHOUT_ORDER = range(ORDERS, ORDERS + 60)
"""Payments whose order never comes."""
LOST_BEFORE = range(2, KILLS + 2, 2)
"""The lives that find no disk: the last one too, which comes to the end of the input."""
LAST_LIFE_S = 120.0
SERVICE = "matched"
MATCH = ["id", "customer", "cents"]

Event = dict[str, Any]


def orders() -> list[Event]:
    """In the order in which they are sent, which is that of their times."""
    rng = random.Random(33)
    return [
        {
            "order": number,
            "customer": f"c{rng.randrange(CUSTOMERS)}",
            "cents": rng.randint(100, 9999),
            "at_ms": START_MS + number * STEP_MS,
        }
        for number in range(ORDERS)
    ]


def payments() -> list[Event]:
    """By their times: up to a day before their order or two days after it, so that no pair waits too long."""
    rng = random.Random(34)
    sent = [
        {
            "order": one["order"],
            "paid": one["cents"] - (one["order"] % DISPUTED_EVERY == 0),
            "at_ms": one["at_ms"] + rng.randint(-DAY_MS, 2 * DAY_MS),
        }
        for one in orders()
        if one["order"] % UNPAID_EVERY
    ]
    sent += [
        {"order": number, "paid": rng.randint(100, 9999), "at_ms": START_MS + rng.randrange(ORDERS * STEP_MS)}
        for number in WITHOUT_ORDER
    ]
    return sorted(sent, key=lambda one: one["at_ms"])


def feed(_place: Path) -> None:
    """Topics, one of them compacted, the table, and all events."""
    make_topics("shop.orders", "shop.payments", "shop.matched", "shop.disputed")
    make_topics("shop.unmatched", config=COMPACTED)
    make_tables("CREATE TABLE matched (id bigint PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL)")
    write_messages("shop.orders", orders(), key="order")
    write_messages("shop.payments", payments(), key="order")


def lose_disk(life: int, place: Path) -> None:
    """Before that life, as if it began on another machine. Raises when there was nothing to lose."""
    if life in LOST_BEFORE:
        shutil.rmtree(place / "service")


def _both() -> pd.DataFrame:
    """Every order and every payment once, on one line with its other half where there is one."""
    sent = pd.DataFrame(orders()).rename(columns={"at_ms": "ordered_ms"})
    paid = pd.DataFrame(payments()).rename(columns={"at_ms": "paid_ms"})
    both: pd.DataFrame = sent.merge(paid, on="order", how="outer").astype(dict.fromkeys(("cents", "paid"), "Int64"))
    return both


def _alone() -> list[tuple[Event, bool]]:
    """Every order and payment without its other half, and whether it has waited too long when both topics are read."""
    pairs = {one["order"] for one in orders()} & {one["order"] for one in payments()}
    come_to_ms = min(events[-1]["at_ms"] for events in (orders(), payments()))
    alone = [one for one in (*orders(), *payments()) if one["order"] not in pairs]
    return [(one, one["at_ms"] + PATIENCE_MS <= come_to_ms) for one in alone]


def expected() -> dict[str, Any]:
    """The sinks have every order that met its payment, by whether as much was paid, and what has waited too long."""
    found = _both().dropna().rename(columns={"order": "id"})
    right, wrong = found[found["cents"] == found["paid"]], found[found["cents"] != found["paid"]]
    of_both = dict.fromkeys(("kafka-shop.matched", "postgres-matched"), rows_of(right, MATCH))
    given_up = [
        {"id": one["order"], **{name: one.get(name) for name in ("customer", "cents", "paid")}}
        for one, too_long in _alone()
        if too_long
    ]
    return {**of_both, "kafka-shop.disputed": [*rows_of(wrong, [*MATCH, "paid"]), *given_up]}


def left() -> dict[int, tuple[Event, int]]:
    """By order what waits in the end, and until when."""
    return {one["order"]: (one, one["at_ms"] + PATIENCE_MS) for one, too_long in _alone() if not too_long}


def _in_store(place: Path) -> Mapping[Any, Any]:
    try:
        return read_store(place / "service" / "state" / "waiting.db", SERVICE).entries
    except sqlite3.Error as error:
        return {"the store": str(error)}


def _in_changelog() -> dict[Any, Any]:
    """What the newest record of each key says: behind a byte and the time when it ends, what a store holds."""
    last = {record.key: record.value for record in read_topic(os.environ["TPC_KAFKA"], "shop.unmatched")}
    held = {plain(key or b""): value for key, value in last.items() if value is not None}
    return {key: (plain(value[9:]), int.from_bytes(value[1:9], "big", signed=True)) for key, value in held.items()}


def checks(place: Path) -> list[Check]:
    """What waits is right in the store and the changelog; and, all else lost, in what one more life makes of it."""
    wanted = left()
    shown = [
        tallies_equal("what waits is right in the state", wanted, _in_store(place), detail="{} orders"),
        tallies_equal("what waits is right in its changelog", wanted, _in_changelog(), detail="{} orders"),
    ]
    shutil.rmtree(place / "service")
    try:
        command = [sys.executable, str(EXAMPLES / "matched_payments.py")]
        log = place / "last-life.log"
        run(command, log_path=log, directory=place, timeout_s=LAST_LIFE_S, environment={VARIABLE: str(place)})
    except LocalServerError as error:
        return [*shown, Check("one more life on an empty disk", False, error.what)]
    name = "one more life has made the state of the changelog alone"
    return [*shown, tallies_equal(name, wanted, _in_store(place), detail="{} orders")]


PROGRAM = Program(
    "matched_payments",
    servers=("kafka", "postgres"),
    epochs=(len(orders()) + len(payments())) // EVENTS_PER_EPOCH - 1,
    feed=feed,
    expected=expected,
    checks=checks,
    checked=("waiting", "waiting-changelog"),
    events_per_epoch=EVENTS_PER_EPOCH,
    arrive=lose_disk,
)
