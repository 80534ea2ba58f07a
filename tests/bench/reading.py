"""Which rows are there: every committed message of both topics is read, and its id counted."""

from __future__ import annotations

import time

import numpy as np
from confluent_kafka import Consumer, Message, TopicPartition

from tests.bench.work import REJECTED_EVERY, Places
from tests.support.kafka_topics import SILENT

MISSING_IDLE_S = 2.0
IDLE_S = 0.5
"""Without a further message, when all are there: one that is repeated comes after them."""

Offsets = dict[tuple[str, int], int]


class WrongRowsError(Exception):
    """The rows are not the right ones: the run is void."""


def committed_reader(servers: str, begin: Offsets) -> Consumer:
    """A consumer of committed messages from given offsets on; the caller closes it."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reader-{time.time_ns()}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        },
        logger=SILENT,
    )
    consumer.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in begin.items()])
    return consumer


class Reader:
    """Counts ids that begin at `first_id`."""

    def __init__(self, servers: str, places: Places, begin: Offsets, first_id: int, rows: int) -> None:
        self.last: Offsets = {}
        """Of the last message of each partition that has any."""
        self.newest_id = -1
        self._rejected = places.rejected
        self._first_id = first_id
        self._times = np.zeros(rows, np.int32)
        self._strangers = 0
        self.rows = 0
        self._consumer = committed_reader(servers, begin)

    @property
    def has_all(self) -> bool:
        """Whether every id has come. Without transactions the last one may come before others."""
        return bool((self._times > 0).all())

    def read(self) -> int:
        """Read until nothing more comes; the number of rows so far."""
        heard_at = time.monotonic()
        while time.monotonic() - heard_at < (IDLE_S if self.rows >= len(self._times) else MISSING_IDLE_S):
            if self.poll(0.1):
                heard_at = time.monotonic()
        return self.rows

    def poll(self, timeout_s: float) -> bool:
        """Read what has come or comes within the time; whether there was anything."""
        messages = [message for message in self._consumer.consume(10_000, timeout_s) if not message.error()]
        for message in messages:
            self._count(message)
        return bool(messages)

    def _count(self, message: Message) -> None:
        value, topic = message.value() or b"", str(message.topic())
        self.rows += 1
        number = int(value[value.index(b":") + 1 : value.index(b",")])
        self.newest_id = max(self.newest_id, number)
        at = number - self._first_id
        is_routed = (topic == self._rejected) == (number % REJECTED_EVERY == 0)
        if 0 <= at < len(self._times) and is_routed and b'"gain":' in value:
            self._times[at] += 1
        else:
            self._strangers += 1
        self.last[(topic, int(message.partition() or 0))] = int(message.offset() or 0)

    def require_all(self, *, at_least_once: bool = False) -> None:
        """Raise `WrongRowsError` unless every id came once, in its topic and computed, and no other."""
        wrong = int(((self._times < 1) if at_least_once else (self._times != 1)).sum())
        if wrong or self._strangers:
            raise WrongRowsError(
                f"{wrong} ids did not come exactly once, {self._strangers} do not belong where they are"
            )

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()
