"""A bank with an HTTP API, for `docs/examples/payments.py`.

It honours the key of a call: a payment is made once, however often it is asked for, and every call is counted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
