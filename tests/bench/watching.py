"""What somebody downstream can see: when the rows of a round became visible, and whether they are the right ones.

Visible in Kafka is what lies below the last stable offset, in PostgreSQL what a query finds. Control records take
offsets too, so offsets only say when to look: in the end all messages are read and their ids counted, and the time is
that of the first sample whose stable offsets lie behind the last real message of every partition.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import psycopg
from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from tests.bench.reading import Offsets, Reader
from tests.bench.table import SAMPLE_S, TableRound
from tests.bench.work import PARTITIONS, Places
from tests.support.kafka_topics import SILENT

DEADLINE_S = 20.0
STATEMENT_MS = 120_000


class NotVisibleError(Exception):
    """The rows did not all come in time: the run is void."""


@dataclass(frozen=True)
class Seen:
    """When the rows of one round became visible (seconds since 1970), and the samples between."""

    first_at: float
    last_at: float
    steps: list[tuple[float, int]]
    """Time and number of offsets that were visible in Kafka."""

    @property
    def commits(self) -> int:
        """How often something became visible."""
        return sum(later > earlier for (_, earlier), (_, later) in pairwise(self.steps))


class Watch:
    """Watches the places of one job. Between rounds `rewind` makes what is there the beginning."""

    def __init__(self, servers: str, dsn: str, places: Places, *, with_table: bool = True) -> None:
        self._servers = servers
        self._places = places
        self._topics = (places.output, places.rejected)
        self._admin = AdminClient({"bootstrap.servers": servers}, logger=SILENT)
        self._postgres = None
        if with_table:
            options = f"-c statement_timeout={STATEMENT_MS} -c max_parallel_workers_per_gather=0"
            self._postgres = psycopg.connect(dsn, autocommit=True, options=options)
        self._begin = self.stable_offsets()

    def close(self) -> None:
        """Let go of the connections."""
        if self._postgres is not None:
            self._postgres.close()

    @retry(
        retry=retry_if_exception_type(KafkaException), stop=stop_after_attempt(5), wait=wait_fixed(0.5), reraise=True
    )
    def stable_offsets(self) -> Offsets:
        """The last stable offset of every partition of both topics; a new topic has no leader for a moment."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # its own method without types
        wanted = {TopicPartition(t, p): latest for t in self._topics for p in range(PARTITIONS)}
        answers = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=DEADLINE_S
        )
        return {(place.topic, place.partition): future.result().offset for place, future in answers.items()}

    def reader(self, first_id: int, rows: int) -> Reader:
        """A reader of what came since the last `rewind`."""
        return Reader(self._servers, self._places, self._begin, first_id, rows)

    def rewind(self) -> None:
        """Forget the round before: later messages count, and the table is empty."""
        self._begin = self.stable_offsets()
        if self._postgres is not None:
            self._postgres.execute(f"TRUNCATE {self._places.table}")
            self._postgres.execute("CHECKPOINT")

    def wait(self, first_id: int, rows: int, limit_s: float, alive: Callable[[], None]) -> Seen:
        """Return when the rows `first_id`... are visible everywhere, and checked.

        Raises `NotVisibleError`, and `WrongRowsError` when what came is not what belongs there.
        """
        steps: list[tuple[float, Offsets]] = []
        ended = threading.Event()
        samplers = [threading.Thread(target=self._sample, args=(steps, ended), daemon=True)]
        table = None
        if self._postgres is not None:
            table = TableRound(self._postgres, self._places.table, first_id, rows)
            samplers.append(threading.Thread(target=table.sample, args=(ended,), daemon=True))
        reader = self.reader(first_id, rows)
        try:
            for sampler in samplers:
                sampler.start()
            self._read_all(reader, rows, table, steps, limit_s, alive)
            reader.require_all()
            if table is not None:
                table.require_right()
        finally:
            ended.set()
            for sampler in samplers:
                sampler.join()
            reader.close()
        steps.append((time.time(), self.stable_offsets()))
        return self._seen(steps, table, reader.last)

    def _read_all(
        self,
        reader: Reader,
        rows: int,
        table: TableRound | None,
        steps: list[tuple[float, Offsets]],
        limit_s: float,
        alive: Callable[[], None],
    ) -> None:
        """Return when there are as many rows as there should be."""
        deadline = time.monotonic() + limit_s
        looked_at = self._begin
        while True:
            time.sleep(SAMPLE_S)
            alive()
            offsets = steps[-1][1] if steps else self._begin
            there = table is None or table.has_all()
            if there and offsets != looked_at and self._moved(offsets) >= rows:
                looked_at = offsets
                if reader.read() >= rows:
                    return
            if time.monotonic() > deadline:
                in_table = "no table" if table is None else f"{'all' if there else 'not all'} in the table"
                raise NotVisibleError(f"after {limit_s:g} s {reader.read()} of {rows} rows are in Kafka, {in_table}")

    def _moved(self, offsets: Offsets) -> int:
        return sum(offsets.values()) - sum(self._begin.values())

    def _sample(self, steps: list[tuple[float, Offsets]], ended: threading.Event) -> None:
        while not ended.wait(SAMPLE_S):
            steps.append((time.time(), self.stable_offsets()))

    def _seen(self, found: list[tuple[float, Offsets]], table: TableRound | None, last: Offsets) -> Seen:
        steps = [(at, self._moved(offsets)) for at, offsets in found]
        first_at = next(at for at, moved in steps if moved > 0)
        last_at = next(at for at, offsets in found if all(offsets[place] > offset for place, offset in last.items()))
        if table is not None and table.first_at is not None and table.all_at is not None:
            first_at, last_at = min(first_at, table.first_at), max(last_at, table.all_at)
        return Seen(first_at, last_at, steps)
