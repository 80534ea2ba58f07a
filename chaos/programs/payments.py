"""The orders of `docs/examples/payments.py`, and what a bank that counts its calls must have done."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check, multisets_equal, nothing_left
from tpc.chaos.programs.feeding import make_topics, rows_of, write_messages
from tpc.chaos.programs.kill_plan import KILLS
from tpc.chaos.programs.program import EXAMPLES, Program
from tpc.chaos.running.owned_processes import run
from tpc.chaos.user.directory import VARIABLE
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations.actions import log_of
from tpc.errors import LocalServerError
from tpc.sinks.effects.calls import listed
from tpc.sinks.effects.database import Database
from tpc.sinks.effects.effect import Fate

ORDERS = 1200
TRIES = 3
"""After so many refusals a payment is dead."""
CONCURRENCY = 4
"""So many calls are made at once."""
CALL_S = 1.0
"""How long a call takes while the pipeline is killed: there are always some under way."""
PAID_S = 600.0
API = "PAYMENTS_API"


def orders() -> list[dict[str, Any]]:
    """In the order in which they are sent. Some are worth nothing, and some the bank refuses."""
    rng = random.Random(25)
    return [
        {"id": number, "account": f"a{rng.randrange(50)}", "cents": max(0, rng.randint(-500, 5000))}
        for number in range(ORDERS)
    ]


def feed(place: Path) -> None:
    """Topics and orders; and the bank, which the pipeline finds by a variable."""
    make_topics("orders", "orders.refused")
    write_messages("orders", orders(), key="account")
    os.environ[API] = _bank(place).url


@cache
def _bank(place: Path) -> BankServer:
    """The one of this run; it ends with this process at the latest."""
    return BankServer(Bank(is_due=lambda key: _is_complete(place, key)), call_s=CALL_S)


def _is_complete(place: Path, key: str) -> bool:
    """Whether the order that a key names was in an epoch that is complete now, by the log."""
    partition, offset = key.split("/")[-2:]
    complete = [row for row in epoch_rows(Journal(log_of(place / "checkpoint")).open()) if row["status"] == "complete"]
    return bool(complete) and int(offset) < int(json.loads(complete[-1]["end"][0])["orders"].get(partition, 0))


def expected() -> dict[str, Any]:
    """What is refused at once; what happens to the payments `checks` compares."""
    sent = pd.DataFrame(orders())
    return {"kafka-orders.refused": rows_of(sent[sent["cents"] <= 0], ["id", "account", "cents"])}


def settled() -> pd.DataFrame:
    """Every payment with what must happen to it."""
    sent = pd.DataFrame(orders())
    payable = sent[sent["cents"] > 0]
    dead = payable["cents"] % REFUSED == 0
    marked: pd.DataFrame = payable.assign(
        state=pd.Series("done", index=payable.index).mask(dead, "dead"),
        refusals=pd.Series(0, index=payable.index).mask(dead, TRIES),
    )
    return marked


def checks(place: Path) -> list[Check]:
    """The rest is paid by one more life, which has no epoch; then every order was paid once."""
    server = _bank(place)
    server.call_s = 0.0
    left = sum(one.fate in (Fate.WAITING, Fate.CALLING) for one in outbox(place))
    try:
        command = [sys.executable, str(EXAMPLES / "payments.py"), "wait"]
        run(
            command,
            log_path=place / "paid.log",
            directory=place,
            timeout_s=PAID_S,
            environment={VARIABLE: str(place), API: server.url},
        )
        paid = Check("the next life carries on what was left", left > 0, f"{left} payments")
    except LocalServerError as error:
        paid = Check("the next life carries on what was left", False, error.what)
    server.shutdown()
    server.server_close()
    os.environ.pop(API, None)
    return [paid, *of_the_bank(server.bank, place)]


def outbox(place: Path) -> list[Any]:
    """The state of each payment so far."""
    return list(listed(Database(place / "outbox", 30.0), tuple(Fate), 10 * ORDERS))


def of_the_bank(bank: Bank, place: Path) -> list[Check]:
    """What was paid is what was ordered, once, and not before its epoch was complete."""
    wanted = settled()
    paid = wanted[wanted["state"] == "done"]
    rows = [(json.loads(one.row), one.fate.value, one.refusals) for one in outbox(place)]
    noted = [(row["account"], row["cents"], state, refusals) for row, state, refusals in rows]
    calls = {key: bank.calls[key] - (payment[1] % BUSY == 0) for key, payment in bank.payments.items()}
    repeated = sum(calls.values()) - len(calls)
    return [
        multisets_equal("the bank has paid each order", _tuples(paid, ["account", "cents"]), bank.payments.values()),
        multisets_equal(
            "the outbox says the outcome of each", _tuples(wanted, ["account", "cents", "state", "refusals"]), noted
        ),
        nothing_left("no call before its epoch was complete", {"calls": bank.early}),
        nothing_left("no key for two payments", {"keys": bank.contradictions}),
        Check(
            "calls were repeated where the driver died in them, and nowhere else",
            0 < repeated <= KILLS * CONCURRENCY,
            f"{sum(bank.calls.values())} calls for {len(wanted)} payments, {repeated} of what was paid already or half",
        ),
    ]


def _tuples(rows: pd.DataFrame, columns: list[str]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows_of(rows, columns)]


PROGRAM = Program(
    "payments",
    servers=("kafka",),
    epochs=ORDERS // 100 - 1,
    feed=feed,
    expected=expected,
    checks=checks,
    checked=("payments",),
)


# A bank with an HTTP API, for `docs/examples/payments.py`.
#
# It honours the key of a call: a payment is made once, however often it is asked for, and every call is counted.

REFUSED = 23
"""A sum that this divides is refused, always."""
BUSY = 10
"""Every so many a payment finds the bank busy at its first call."""


@dataclass
class Bank:
    """What was asked and what was done, by key. `is_due` says of a key whether it may be called by now."""

    is_due: Callable[[str], bool] = lambda _key: True
    calls: Counter[str] = field(default_factory=Counter)
    payments: dict[str, tuple[str, int]] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)
    """Keys that came again with another account or sum."""
    early: list[str] = field(default_factory=list)
    """Keys that were not due."""
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def asked(self, key: str, account: str, cents: int) -> tuple[int, int]:
        """The HTTP status, and which call it was."""
        due = self.is_due(key)
        with self.lock:
            self.total += 1
            self.calls[key] += 1
            self.early += [] if due else [key]
            return self._status(key, (account, cents)), self.total

    def _status(self, key: str, payment: tuple[str, int]) -> int:
        if payment[1] % REFUSED == 0:
            return 422
        if self.calls[key] == 1 and payment[1] % BUSY == 0:
            return 503
        return 200

    def pay(self, key: str, payment: tuple[str, int]) -> None:
        """Once, however often."""
        with self.lock:
            if self.payments.setdefault(key, payment) != payment:
                self.contradictions.append(key)


class BankServer(ThreadingHTTPServer):
    """Serves a bank at `url`. `at_call` is told "before" and "after" a payment which call it is, and says whether the
    caller is gone by now. A call takes `call_s`, half of it before the payment.
    """

    daemon_threads = True

    def __init__(
        self,
        bank: Bank,
        at_call: Callable[[int, str], bool] = lambda _number, _when: False,
        *,
        call_s: float = 0.0,
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bank, self.at_call, self.call_s = bank, at_call, call_s
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        threading.Thread(target=self.serve_forever, name="bank", daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was killed is no error of the bank's."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: BankServer

    def do_POST(self) -> None:
        """One call."""
        key = self.headers["Idempotency-Key"]
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        bank, payment = self.server.bank, (body["account"], body["cents"])
        status, number = bank.asked(key, *payment)
        time.sleep(self.server.call_s / 2)
        if self.server.at_call(number, "before"):
            return
        if status == 200:
            bank.pay(key, payment)
        time.sleep(self.server.call_s / 2)
        if self.server.at_call(number, "after"):
            return
        answer = {200: "paid", 422: "no such account", 503: "busy"}[status].encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""
