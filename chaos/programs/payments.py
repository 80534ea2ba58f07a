"""The orders of `docs/examples/payments.py`, and what a bank that counts its calls must have done."""

from __future__ import annotations

import json
import os
import random
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check, multisets_equal, nothing_left
from tpc.chaos.checkers.postgres_content import query
from tpc.chaos.programs.bank import BUSY, KILLS_AT, REFUSED, Bank, KilledCarrier
from tpc.chaos.programs.feeding import make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.program import Program
from tpc.coordinator.epochs import epoch_rows
from tpc.coordinator.log.journal import Journal
from tpc.coordinator.operations import log_of
from tpc.support.deadlines import until

ORDERS = 1200
TRIES = 3
"""After so many refusals a payment is dead."""
CONCURRENCY = 4
"""So many calls a carrier makes at once."""
PAID_KILLS = sum(when == "after" for when in KILLS_AT.values())
CARRIED_S = 120.0
TABLE = """CREATE TABLE payments (partition int, "offset" bigint, account text NOT NULL, cents bigint NOT NULL,
    state text NOT NULL DEFAULT 'waiting', refusals int NOT NULL DEFAULT 0, answer text,
    not_before timestamptz NOT NULL DEFAULT 'epoch', PRIMARY KEY (partition, "offset"))"""
LEFT = "SELECT count(*) FROM payments WHERE state IN ('waiting', 'calling')"


def orders() -> list[dict[str, Any]]:
    """In the order in which they are sent. Some are worth nothing, and some the bank refuses."""
    rng = random.Random(25)
    return [
        {"id": number, "account": f"a{rng.randrange(50)}", "cents": max(0, rng.randint(-500, 5000))}
        for number in range(ORDERS)
    ]


def feed(place: Path) -> None:
    """Topics, table and orders; the bank, and the carrier."""
    make_topics("orders", "orders.refused")
    make_tables(TABLE)
    write_messages("orders", orders(), key="account")
    _carrier(place)


@cache
def _carrier(place: Path) -> KilledCarrier:
    """The one of this run; it ends with this process at the latest."""
    return KilledCarrier(Bank(is_due=lambda key: _is_complete(place, key)), place)


def _is_complete(place: Path, key: str) -> bool:
    """Whether the order that a key names was in an epoch that is complete now, by the log."""
    partition, offset = key.split("/")[-2:]
    complete = [row for row in epoch_rows(Journal(log_of(place / "checkpoint")).open()) if row["status"] == "complete"]
    return bool(complete) and int(offset) < int(json.loads(complete[-1]["end"][0])["orders"].get(partition, 0))


def expected() -> dict[str, Any]:
    """Per sink its rows; what became of the payments is the carrier's doing."""
    sent = pd.DataFrame(orders())
    valid = sent["cents"] > 0
    return {
        "postgres-payments": rows_of(sent[valid], ["account", "cents"]),
        "kafka-orders.refused": rows_of(sent[~valid], ["id", "account", "cents"]),
    }


def settled() -> pd.DataFrame:
    """Every payment with what must become of it."""
    sent = pd.DataFrame(orders())
    payable = sent[sent["cents"] > 0]
    dead = payable["cents"] % REFUSED == 0
    marked: pd.DataFrame = payable.assign(
        state=pd.Series("done", index=payable.index).mask(dead, "dead"),
        refusals=pd.Series(0, index=payable.index).mask(dead, TRIES),
    )
    return marked


def checks(place: Path) -> list[Check]:
    """Every order was paid once, though the carrier was killed too."""
    carrier, dsn = _carrier(place), os.environ["TPC_POSTGRES"]
    carried = until(lambda: list(query(dsn, LEFT)) == [(0,)], CARRIED_S, pause_max_s=1.0)
    alive = carrier.alive
    carrier.close()
    return [
        Check("everything was carried out", carried and alive, f"{carrier.bank.total} calls"),
        Check(
            "the carrier was killed often enough",
            len(carrier.kills) == len(KILLS_AT),
            f"{len(carrier.kills)} kills within a call, {sum('after' in kill for kill in carrier.kills)} of them paid",
        ),
        *of_the_bank(carrier.bank, dsn),
    ]


def of_the_bank(bank: Bank, dsn: str) -> list[Check]:
    """What was paid is what was ordered, once, and not before its epoch was complete."""
    wanted = settled()
    paid = wanted[wanted["state"] == "done"]
    noted = "SELECT account, cents, state, refusals FROM payments"
    calls = {key: bank.calls[key] - (payment[1] % BUSY == 0) for key, payment in bank.payments.items()}
    repeated = sum(calls.values()) - len(calls)
    at_once = len(KILLS_AT) * CONCURRENCY
    return [
        multisets_equal("the bank has paid each order", _tuples(paid, ["account", "cents"]), bank.payments.values()),
        multisets_equal(
            "the table says what became of each",
            _tuples(wanted, ["account", "cents", "state", "refusals"]),
            query(dsn, noted),
        ),
        nothing_left("no call before its epoch was complete", {"calls": bank.early}),
        nothing_left("no key for two payments", {"keys": bank.contradictions}),
        Check(
            "calls were repeated where the carrier died in them",
            PAID_KILLS <= repeated <= at_once,
            f"{sum(bank.calls.values())} calls for {len(wanted)} payments, {repeated} of what was paid already or half",
        ),
    ]


def _tuples(rows: pd.DataFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows_of(rows, columns)]


PROGRAM = Program(
    "payments",
    servers=("kafka", "postgres"),
    epochs=ORDERS // 100 - 1,
    feed=feed,
    expected=expected,
    checks=checks,
)
