"""A paid service with an HTTP API that classifies texts, for `docs/examples/classified_tickets.py`.

Every answer that it works out is sold, and no two are the same. It counts its calls and its sales. The keys of even
numbers it honours: it sells to them once, and says the same again; to the others it sells at every call.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEAMS = ("billing", "delivery", "technical")
REFUSED = 23
"""A ticket whose number this divides is refused, always."""
BUSY = 10
"""Every so many a ticket finds the service busy at its first call."""
LOST = 17
"""Of every so many a ticket the first answer is sold and does not arrive."""


def number_of(key: str) -> int:
    """The ticket's number that a key names."""
    return int(key.rpartition("-")[2])


def is_honoured(number: int) -> bool:
    """Whether the service sells to this ticket's key once."""
    return number % 2 == 0


@dataclass
class Classifier:
    """What was asked and what was sold, by the ticket's number."""

    calls: Counter[int] = field(default_factory=Counter)
    sales: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    texts: dict[int, set[str]] = field(default_factory=dict)
    sold: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def status(self, number: int, text: str) -> int:
        """What becomes of a call; it is counted."""
        with self.lock:
            self.calls[number] += 1
            self.texts.setdefault(number, set()).add(text)
            if number % REFUSED == 0:
                return 422
            return 503 if self.calls[number] == 1 and number % BUSY == 0 else 200

    def answer(self, number: int) -> tuple[dict[str, Any], bool]:
        """An answer, and whether it gets lost on its way."""
        with self.lock:
            sales = self.sales.setdefault(number, [])
            is_lost = not sales and number % LOST == 0
            if not sales or not is_honoured(number):
                self.sold += 1
                rng = random.Random(self.sold)
                urgent = rng.random() < 0.3
                sales.append({"team": rng.choice(TEAMS), "urgent": urgent, "reference": f"r{self.sold}"})
            return sales[-1], is_lost


class ClassifierServer(ThreadingHTTPServer):
    """Serves a classifier at `url`. A call takes up to `call_s`, half of it before the answer is sold.

    `at_sale` is told the number of the ticket after each sale and before the answer is sent. `says`, if it is set, is
    sent in the place of every answer that is sold.
    """

    daemon_threads = True

    def __init__(
        self, classifier: Classifier, *, call_s: float = 0.0, at_sale: Callable[[int], None] = lambda _number: None
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.classifier, self.call_s, self.at_sale = classifier, call_s, at_sale
        self.says: bytes | None = None
        self.url = f"http://127.0.0.1:{self.server_address[1]}/"
        threading.Thread(target=self.serve_forever, name="classifier", daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was killed is no error of the service's."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: ClassifierServer

    def do_POST(self) -> None:
        """One call."""
        number = number_of(self.headers["Idempotency-Key"])
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        pause_s = self.server.call_s * random.random() / 2
        status = self.server.classifier.status(number, body["text"])
        time.sleep(pause_s)
        said: dict[str, Any] = {"problem": status}
        if status == 200:
            said, is_lost = self.server.classifier.answer(number)
            self.server.at_sale(number)
            if is_lost:
                return
        time.sleep(pause_s)
        answer = self.server.says if status == 200 and self.server.says is not None else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the terminal."""
