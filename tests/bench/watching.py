"""What somebody downstream can see: when the rows of a round became visible, and whether they are the right ones.

Visible in Kafka is what lies below the last stable offset, in PostgreSQL what `count(*)` counts. Control records take
offsets too, so offsets only say when to look: in the end all messages are read and their ids counted, and the time is
that of the first sample whose stable offsets lie behind the last real message of every partition.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import psycopg
from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # public, not in __all__
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from tests.bench.work import PARTITIONS, Places
from tests.support.kafka_topics import SILENT

KAFKA_EVERY_S = 0.05
TABLE_EVERY_S = 0.25
DEADLINE_S = 30.0
IDLE_S = 2.0

Offsets = dict[tuple[str, int], int]


class NotVisibleError(Exception):
    """The rows did not all come in time, or are not the right ones: the run is void."""


@dataclass(frozen=True)
class Seen:
    """When the rows of one round became visible (seconds since 1970), and the samples between."""

    first_at: float
    last_at: float
    steps: list[tuple[float, int]]
    """Time and number of offsets that were visible in Kafka."""


class Watch:
    """Watches the places of one job. Between rounds `rewind` makes what is there the beginning."""

    def __init__(self, servers: str, dsn: str, places: Places, *, with_table: bool = True) -> None:
        self._servers = servers
        self._places = places
        self._topics = (places.output, places.rejected)
        self._admin = AdminClient({"bootstrap.servers": servers}, logger=SILENT)
        self._postgres = psycopg.connect(dsn, autocommit=True) if with_table else None
        if self._postgres is not None:
            self._postgres.execute("SET max_parallel_workers_per_gather = 0")
        self._begin = self.stable_offsets()

    def close(self) -> None:
        """Let go of the connections."""
        if self._postgres is not None:
            self._postgres.close()

    @retry(retry=retry_if_exception_type(KafkaException), stop=stop_after_delay(DEADLINE_S), wait=wait_fixed(0.2))
    def stable_offsets(self) -> Offsets:
        """The last stable offset of every partition of both topics; a new topic has no leader for a moment."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {TopicPartition(t, p): latest for t in self._topics for p in range(PARTITIONS)}
        answers = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=DEADLINE_S
        )
        return {(place.topic, place.partition): future.result().offset for place, future in answers.items()}

    def rewind(self) -> None:
        """Forget the round before: later messages count, and the table is empty."""
        self._begin = self.stable_offsets()
        if self._postgres is not None:
            self._postgres.execute(f"TRUNCATE {self._places.table}")
            self._postgres.execute("CHECKPOINT")

    def wait(self, first_id: int, rows: int, in_table: int, limit_s: float, alive: Callable[[], None]) -> Seen:
        """Return when the rows `first_id`... are visible everywhere, and checked. Raises `NotVisibleError`."""
        kafka: list[tuple[float, Offsets]] = []
        table: list[tuple[float, int]] = []
        ended = threading.Event()
        counting = threading.Thread(target=self._count, args=(table, ended), daemon=True)
        counting.start()
        reader = _Reader(self._servers, self._begin, first_id, rows)
        deadline = time.monotonic() + limit_s
        try:
            looked_at: Offsets = self._begin
            while True:
                alive()
                offsets = self.stable_offsets()
                kafka.append((time.time(), offsets))
                there = self._postgres is None or (bool(table) and table[-1][1] >= in_table)
                if there and offsets != looked_at and self._moved(offsets) >= rows:
                    looked_at = offsets
                    if reader.read() >= rows:
                        break
                if time.monotonic() > deadline:
                    raise NotVisibleError(
                        f"after {limit_s:g} s {reader.read()} of {rows} rows are in Kafka, "
                        f"{table[-1][1] if table else 0} of {in_table} in the table"
                    )
                time.sleep(KAFKA_EVERY_S)
        finally:
            ended.set()
            counting.join()
            reader.close()
        reader.require_right()
        self._require_table(first_id, in_table)
        return self._seen(kafka, table, reader.last, in_table)

    def _moved(self, offsets: Offsets) -> int:
        return sum(offsets.values()) - sum(self._begin.values())

    def _count(self, found: list[tuple[float, int]], ended: threading.Event) -> None:
        """Count the table's rows now and then, seldom enough not to be a load."""
        while self._postgres is not None and not ended.is_set():
            began = time.time()
            row = self._postgres.execute(f"SELECT count(*) FROM {self._places.table}").fetchone()
            now = time.time()
            found.append((now, int(row[0]) if row else 0))
            ended.wait(max(TABLE_EVERY_S, 8 * (now - began)))

    def _require_table(self, first_id: int, in_table: int) -> None:
        if self._postgres is None:
            return
        row = self._postgres.execute(
            f"SELECT count(*), count(DISTINCT id), min(id) FROM {self._places.table}"
        ).fetchone()
        assert row is not None
        if (row[0], row[1]) != (in_table, in_table) or row[2] < first_id:
            raise NotVisibleError(f"the table has {row[0]} rows with {row[1]} ids from {row[2]} on, not {in_table}")

    def _seen(
        self, kafka: list[tuple[float, Offsets]], table: list[tuple[float, int]], last: Offsets, in_table: int
    ) -> Seen:
        steps = [(at, self._moved(offsets)) for at, offsets in kafka]
        first_at = next(at for at, moved in steps if moved > 0)
        last_at = next(at for at, offsets in kafka if all(offsets[place] > offset for place, offset in last.items()))
        if self._postgres is not None:
            first_at = min(first_at, next(at for at, rows in table if rows > 0))
            last_at = max(last_at, next(at for at, rows in table if rows >= in_table))
        return Seen(first_at, last_at, steps)


class _Reader:
    """Reads committed messages from given offsets on, and counts which ids came."""

    def __init__(self, servers: str, begin: Offsets, first_id: int, rows: int) -> None:
        self.last: Offsets = {}
        self._first_id = first_id
        self._times = np.zeros(rows, np.int32)
        self._strangers = 0
        self._rows = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"reader-{time.time_ns()}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            },
            logger=SILENT,
        )
        self._consumer.assign(
            [TopicPartition(topic, partition, offset) for (topic, partition), offset in begin.items()]
        )

    def read(self) -> int:
        """Read what there is; the number of rows so far."""
        until = time.monotonic() + IDLE_S
        wanted = len(self._times)
        while time.monotonic() < until and self._rows < wanted:
            for message in self._consumer.consume(10_000, 0.2):
                value = message.value()
                if message.error() or value is None:
                    continue
                until = time.monotonic() + IDLE_S
                self._rows += 1
                number = int(value[value.index(b":") + 1 : value.index(b",")]) - self._first_id
                if 0 <= number < wanted:
                    self._times[number] += 1
                else:
                    self._strangers += 1
                self.last[(str(message.topic()), int(message.partition() or 0))] = int(message.offset() or 0)
        return self._rows

    def require_right(self) -> None:
        """Raise `NotVisibleError` unless every id came once, and no other."""
        wrong = int((self._times != 1).sum())
        if wrong or self._strangers:
            raise NotVisibleError(f"{wrong} ids did not come exactly once, {self._strangers} do not belong here")

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()
