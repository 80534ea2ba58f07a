"""The work that every system does, and its input: what goes in, what must come out.

JSON messages of about 150 bytes in a topic of two partitions; parse, compute `gain`, and route: every hundredth row to
a topic of rejected ones, the others to an output topic and to a PostgreSQL table.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka_topics import SILENT

PARTITIONS = 2
REJECTED_EVERY = 100
COMPRESSION = "lz4"
SEED = 20260101
DEADLINE_S = 60.0
TABLE_COLUMNS = "id bigint primary key, origin text, dest text, ts bigint, gain double precision"

_AIRPORTS = (
    "New York Kennedy (JFK)",
    "Los Angeles Intl (LAX)",
    "Chicago O'Hare (ORD)",
    "Dallas Fort Worth (DFW)",
    "Denver Intl (DEN)",
    "San Francisco (SFO)",
    "Seattle Tacoma (SEA)",
    "Boston Logan (BOS)",
    "Miami Intl (MIA)",
    "Phoenix Sky Harbor (PHX)",
)
_FIRST_TIME_MS = 1_767_225_600_000
_DIFFERENT = 4096
"""Messages differ in their id, their time and one of so many flights."""


@dataclass(frozen=True)
class Places:
    """Where one run reads and writes; made fresh for it."""

    source: str
    output: str
    rejected: str
    table: str

    @classmethod
    def named(cls, name: str) -> Places:
        """The places of the run `name`."""
        return cls(f"{name}-in", f"{name}-out", f"{name}-rejected", name.replace("-", "_"))


def wanted_in_table(rows: int) -> int:
    """How many of the rows with ids from a multiple of `REJECTED_EVERY` on belong in the table."""
    return rows - -(-rows // REJECTED_EVERY)


def gain_in_table(first: int, rows: int) -> float:
    """The sum of `gain` over the rows that belong in the table."""
    parts = [json.loads(f"{{{part}") for part in flights()]
    gains = np.array([part["dep_delay"] - part["distance"] / 60.0 for part in parts])
    ids = np.arange(first, first + rows)
    return float(gains[ids[ids % REJECTED_EVERY != 0] % _DIFFERENT].sum())


def flights() -> list[str]:
    """The different parts of messages; the same at every call."""
    rng = random.Random(SEED)
    made = []
    for _ in range(_DIFFERENT):
        origin, dest = rng.sample(_AIRPORTS, 2)
        delay, distance = round(rng.gauss(8, 25), 2), 150 + rng.randrange(2500)
        made.append(f'"origin": "{origin}", "dest": "{dest}", "dep_delay": {delay}, "distance": {distance}}}')
    return made


def messages(first: int, rows: int) -> Iterator[tuple[int, str]]:
    """Ids from `first` on, with their messages."""
    parts = flights()
    for number in range(first, first + rows):
        yield number, message(number, _FIRST_TIME_MS + number * 37, parts)


def message(number: int, time_ms: int, parts: list[str]) -> str:
    """One message, with one of the `parts` that `flights` made."""
    return f'{{"id": {number}, "ts": {time_ms}, {parts[number % _DIFFERENT]}'


def make_topics(servers: str, places: Places) -> None:
    """The topics of a run, of `PARTITIONS` partitions each."""
    admin = AdminClient({"bootstrap.servers": servers}, logger=SILENT)
    wanted = [NewTopic(name, PARTITIONS, 1) for name in (places.source, places.output, places.rejected)]
    for made in admin.create_topics(wanted, operation_timeout=DEADLINE_S).values():
        made.result(DEADLINE_S)


def drop_topics(servers: str, places: Places) -> None:
    """Remove them again: the broker's disk and page cache are shared by all runs."""
    admin = AdminClient({"bootstrap.servers": servers}, logger=SILENT)
    names = [places.source, places.output, places.rejected]
    for dropped in admin.delete_topics(names, operation_timeout=DEADLINE_S).values():
        dropped.result(DEADLINE_S)


class Feed:
    """Puts rows into a source topic in one transaction: readers see all of them at the moment of the `release`."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": f"feed-{topic}",
                "transaction.timeout.ms": 900_000,
                "linger.ms": 50,
                "batch.size": 262_144,
                "queue.buffering.max.messages": 500_000,
                "compression.type": COMPRESSION,
            },
            logger=SILENT,
        )
        self._producer.init_transactions(DEADLINE_S)

    def load(self, first: int, rows: int) -> None:
        """Send rows, unseen for now."""
        producer = self._producer
        producer.begin_transaction()
        for number, text in messages(first, rows):
            while True:
                try:
                    producer.produce(self._topic, text, str(number), number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 2000 == 0:
                producer.poll(0)
        left = producer.flush(DEADLINE_S)
        assert left == 0, f"{left} rows of the input were not taken"

    def release(self) -> None:
        """Show what was loaded."""
        self._producer.commit_transaction(DEADLINE_S)
