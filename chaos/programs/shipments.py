"""The orders and payments of `docs/examples/shipments.py`: orders come life after life, in transactions of all kinds.

Those that are not finished when a life begins hold up what comes after them; a later portion finishes them. Payments
are there from the beginning, in an order of their own, also for orders whose transaction was rolled back.
"""

from __future__ import annotations

import os
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import psycopg

from tpc.chaos.checkers.compare import Check
from tpc.chaos.programs.feeding import make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.program import Program
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of

ORDERS = 900
ROLLED_BACK = range(ORDERS, ORDERS + 40)
UNPAID_EVERY = 9
CUSTOMERS = 30
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SHIPMENT = ["id", "customer", "cents", "paid_at"]
PREPARED = "shipments-till"

Event = dict[str, Any]


def orders() -> list[Event]:
    """All of them, those that are rolled back too; 12 hours, so that none is late however long it is held up."""
    rng = random.Random(28)
    return [
        {
            "id": number,
            "customer": f"c{rng.randrange(CUSTOMERS)}",
            "cents": rng.randint(100, 9999),
            "ordered_at": START + timedelta(seconds=rng.randrange(12 * 3600)),
        }
        for number in range(ROLLED_BACK.stop)
    ]


def payments() -> list[Event]:
    """In the order in which they are sent."""
    rng = random.Random(29)
    sent = [
        {"order": one["id"], "paid_at": one["ordered_at"] + timedelta(seconds=rng.randrange(6 * 3600))}
        for one in orders()
        if one["id"] % UNPAID_EVERY
    ]
    rng.shuffle(sent)
    return sent


class Till:
    """Writes the orders: each life's portion before it begins. `held` are the transactions that are open meanwhile."""

    def __init__(self) -> None:
        self.held: dict[str, psycopg.Connection[Any]] = {}

    def arrive(self, life: int, _place: Path) -> None:
        """The portion before that life. Before the sixth, the last after five kills, all is finished."""
        portions = {1: self._first, 2: self._second, 3: self._third, 4: self._fourth, 5: self._fifth, 6: self._last}
        portions.get(life, lambda: None)()

    def _first(self) -> None:
        self._commit(range(600))
        self._begin("slow", range(600, 620))
        self._commit(range(620, 660))
        self._begin("failed", ROLLED_BACK)
        self._commit(range(660, 680))

    def _second(self) -> None:
        self.held.pop("failed").close()
        self._begin("prepared", range(680, 700))
        with self.held.pop("prepared") as connection:
            connection.execute(f"PREPARE TRANSACTION '{PREPARED}'".encode())
        self._end("slow")

    def _third(self) -> None:
        self._begin("older", range(700, 720))
        self._begin("younger", range(720, 740))
        self._commit(range(740, 760))
        self._end("younger")

    def _fourth(self) -> None:
        with self._connected() as connection:
            connection.execute(f"COMMIT PREPARED '{PREPARED}'".encode())
        self._commit(range(760, 800))

    def _fifth(self) -> None:
        self._end("older")
        self._commit(range(800, 860))

    def _last(self) -> None:
        self._commit(range(860, ORDERS))

    def _connected(self) -> psycopg.Connection[Any]:
        return psycopg.connect(os.environ["TPC_POSTGRES"], connect_timeout=10, autocommit=True)

    def _insert(self, connection: psycopg.Connection[Any], numbers: range) -> None:
        rows = orders()
        statement = b"INSERT INTO orders VALUES (%(id)s, %(customer)s, %(cents)s, %(ordered_at)s)"
        connection.cursor().executemany(statement, [rows[number] for number in numbers])

    def _commit(self, numbers: range) -> None:
        with self._connected() as connection, connection.transaction():
            self._insert(connection, numbers)

    def _begin(self, name: str, numbers: range) -> None:
        connection = self.held[name] = self._connected()
        connection.execute(b"BEGIN")
        self._insert(connection, numbers)

    def _end(self, name: str) -> None:
        with self.held.pop(name) as connection:
            connection.execute(b"COMMIT")


def feed(_place: Path) -> None:
    """Topics, tables and payments; the orders come with the lives."""
    make_topics("payments", "shipments")
    make_tables(
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL, "
        "ordered_at timestamptz NOT NULL, xid xid8 NOT NULL DEFAULT pg_current_xact_id())",
        "CREATE INDEX ON orders (xid)",
        "CREATE TABLE shipped (id bigint PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL, "
        "paid_at timestamptz NOT NULL)",
    )
    write_messages("payments", ({**one, "paid_at": one["paid_at"].isoformat()} for one in payments()), key="order")


def expected() -> dict[str, Any]:
    """Both sinks have every order that was committed and is paid."""
    committed = pd.DataFrame(orders()[:ORDERS])
    found = committed.merge(pd.DataFrame(payments()), left_on="id", right_on="order")
    rows = rows_of(found, SHIPMENT)
    return {"kafka-shipments": rows, "postgres-shipped": rows}


def checks(place: Path) -> list[Check]:
    """Nothing was late, however long it was held up."""
    history = epoch_rows(Journal(log_of(place / "checkpoint")).open())
    late = sum(row["late"] for row in history)
    return [Check("no order and no payment was late", late == 0, f"{late} rows were dropped")]


PROGRAM = Program(
    "shipments",
    servers=("kafka", "postgres"),
    epochs=len(payments()) // 100,
    feed=feed,
    expected=expected,
    checks=checks,
    arrive=Till().arrive,
)
