"""The tickets of `docs/examples/classified_tickets.py`, and what a service that sells its answers must have sold.

No row can be computed beforehand, since the service never answers the same twice: each must say what is remembered.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd

from tpc.chaos.checkers.compare import Check, multisets_equal, nothing_left
from tpc.chaos.checkers.kafka_content import read_topic
from tpc.chaos.checkers.postgres_content import query
from tpc.chaos.flights.topics import PARTITIONS
from tpc.chaos.programs.feeding import make_tables, make_topics, rows_of, write_messages
from tpc.chaos.programs.kill_plan import KILLS
from tpc.chaos.programs.program import Program

TICKETS = 1200
CONCURRENCY = 4
"""So many calls a task makes at once; there is a task for each partition of the topic."""
CALL_S = 0.2
API = "CLASSIFIER_API"

Sales = dict[int, list[dict[str, Any]]]


def tickets() -> list[dict[str, Any]]:
    """In the order in which they are sent. Some come twice."""
    rng = random.Random(31)
    once = [{"id": number, "text": f"my parcel {rng.randrange(10_000)} is late"} for number in range(TICKETS)]
    return [one for ticket in once for one in [ticket] * (1 + (rng.random() < 0.05))]


def feed(place: Path) -> None:
    """Topics, tables and tickets; and the service, which the pipeline finds by a variable."""
    make_topics("tickets", "urgent", "unclassified")
    make_tables(
        "CREATE TABLE tickets (id bigint NOT NULL, text text NOT NULL, team text NOT NULL, urgent boolean NOT NULL, "
        "reference text NOT NULL)",
        "CREATE TABLE answers (id bigint PRIMARY KEY, answer text NOT NULL)",
    )
    write_messages("tickets", tickets(), key="id")
    os.environ[API] = _service(place).url


@cache
def _service(_place: Path) -> ClassifierServer:
    """The one of this run; it ends with this process at the latest."""
    return ClassifierServer(Classifier(), call_s=CALL_S)


def expected() -> dict[str, Any]:
    """What the service refuses; the rows with an answer `checks` compares."""
    sent = pd.DataFrame(tickets())
    return {"kafka-unclassified": rows_of(sent[sent["id"] % REFUSED == 0], ["id", "text"])}


def checks(place: Path) -> list[Check]:
    """Table and topic say what is remembered, and the service has sold each answer once, as far as it can be had."""
    server = _service(place)
    server.shutdown()
    server.server_close()
    os.environ.pop(API, None)
    dsn = os.environ["TPC_POSTGRES"]
    remembered = {number: json.loads(answer) for number, answer in query(dsn, "SELECT id, answer FROM answers")}
    table = query(dsn, "SELECT id, team, urgent, reference FROM tickets")
    rows = [json.loads(one.value or b"") for one in read_topic(os.environ["TPC_KAFKA"], "urgent")]
    topic = [(row["id"], row["team"], row["reference"]) for row in rows]
    return [*of_rows(remembered, table, topic), *of_sales(server.classifier, remembered)]


def of_rows(
    remembered: dict[int, dict[str, Any]], table: Iterable[tuple[Any, ...]], topic: Iterable[tuple[Any, ...]]
) -> list[Check]:
    """Every row has the one answer of its ticket that is remembered, and is where that sends it."""
    said = [(one["id"], remembered.get(one["id"], {})) for one in tickets() if one["id"] % REFUSED]
    in_table = [(number, one.get("team"), one.get("urgent"), one.get("reference")) for number, one in said]
    in_topic = [(number, one.get("team"), one.get("reference")) for number, one in said if one.get("urgent")]
    return [
        multisets_equal("the table says what is remembered", in_table, table),
        multisets_equal("the topic has what is remembered as urgent", in_topic, topic),
    ]


def of_sales(service: Classifier, remembered: dict[int, dict[str, Any]]) -> list[Check]:
    """What is remembered was sold for that ticket; and how often each was sold."""
    sales = service.sales
    strange = [number for number, one in remembered.items() if one and one not in sales.get(number, [])]
    unsold = [one["id"] for one in tickets() if one["id"] % REFUSED and one["id"] not in sales]
    twice = [number for number, sold in sales.items() if is_honoured(number) and len(sold) != 1]
    contradictions = [number for number, texts in service.texts.items() if len(texts) != 1]
    return [
        nothing_left(
            "what is remembered was sold for its ticket", {"remembered": _named(strange), "not sold": _named(unsold)}
        ),
        nothing_left("where the key is honoured, each answer was sold once", {"tickets": _named(twice)}),
        nothing_left("no key for two texts", {"tickets": _named(contradictions)}),
        _sold_again({number: sold for number, sold in sales.items() if not is_honoured(number)}),
    ]


def _named(numbers: Iterable[int]) -> list[str]:
    return [f"ticket {number}" for number in numbers]


def _sold_again(sales: Sales) -> Check:
    """Of the keys that are not honoured: what was lost on its way, and what a kill has met."""
    lost = sum(number % LOST == 0 for number in sales)
    again = sum(map(len, sales.values())) - len(sales) - lost
    return Check(
        "elsewhere only what was lost on its way, or under way at a kill, was sold again",
        0 <= again <= KILLS * CONCURRENCY * PARTITIONS,
        f"{lost} lost and {again} met by kills, of {len(sales)} answers",
    )


PROGRAM = Program(
    "classified_tickets",
    servers=("kafka", "postgres"),
    epochs=TICKETS // 100 - 1,
    feed=feed,
    expected=expected,
    checks=checks,
    checked=("postgres-tickets", "kafka-urgent"),
)


# A paid service with an HTTP API that classifies texts, for `docs/examples/classified_tickets.py`.
#
# Every answer that it works out is sold, and no two are the same. It counts its calls and its sales. The keys of even
# numbers it honours: it sells to them once, and says the same again; to the others it sells at every call.

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
        """What happens to a call; it is counted."""
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
