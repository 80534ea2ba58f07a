"""How long a row takes from its sending until a reader sees it, at a trickle of 100 rows a second.

Kafka: a read_committed consumer. PostgreSQL: a query every 20 ms. The first seconds of a trickle do not count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
import orjson
import psycopg
from confluent_kafka import Producer

from tests.bench.arena import Arena
from tests.bench.reading import committed_reader
from tests.bench.records import LATENCY, Results, Run, attempt
from tests.bench.running import RunningJob
from tests.bench.systems import System
from tests.bench.work import PARTITIONS, Places, flights, message, wanted_in_table
from tests.support.kafka_topics import SILENT

ROWS_PER_S = 100
WARM_UP_S = 10
LAST_S = 30.0
TABLE_EVERY_S = 0.02
LOOK_BACK_S = 3
READY_S = 120.0


def trickle(arena: Arena, results: Results, system: System, *, number: int, seconds: int, interval_ms: int) -> None:
    """One job under a trickle."""
    places = arena.places(f"{system.name}-trickle")

    def measure() -> dict[str, float]:
        with arena.start(system, places, interval_ms=interval_ms, rows_per_epoch=500_000) as job:
            return figures_of(arena, places, job, seconds=seconds)

    figures, void = attempt(measure)
    results.add(Run(LATENCY, system.name, interval_ms, seconds * ROWS_PER_S, number, figures, void))
    arena.clear(places)


def figures_of(
    arena: Arena, places: Places, job: RunningJob, *, seconds: int, with_table: bool = True
) -> dict[str, float]:
    """Percentiles in milliseconds, of a job that has just been started on these places. Raises `TimeoutError`."""
    readers = _Readers(arena, places, with_table=with_table)
    try:
        job.wait_until_started()
        first = _send(arena.servers, places, 0, ROWS_PER_S)
        readers.wait_for(first, READY_S, job.require_alive)
        counted_from = _send(arena.servers, places, first, WARM_UP_S * ROWS_PER_S)
        end = _send(arena.servers, places, counted_from, seconds * ROWS_PER_S)
        readers.wait_for(end, LAST_S, job.require_alive)
        return readers.figures(counted_from)
    finally:
        readers.close()


def _send(servers: str, places: Places, first: int, rows: int) -> int:
    """Send rows evenly, each with the time of its sending; the id after the last."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "acks": "all"}, logger=SILENT)
    parts = flights()
    began = time.time()
    for number in range(first, first + rows):
        time.sleep(max(0.0, began + (number - first) / ROWS_PER_S - time.time()))
        text = message(number, int(time.time() * 1000), parts)
        producer.produce(places.source, text, str(number), number % PARTITIONS)
        producer.poll(0)
    producer.flush(LAST_S)
    return first + rows


class _Readers:
    """One thread for each system that is read; each notes how late each id came."""

    def __init__(self, arena: Arena, places: Places, *, with_table: bool) -> None:
        self._arena = arena
        self._places = places
        reading = {"kafka": self._kafka, **({"table": self._table} if with_table else {})}
        self._late_ms: Mapping[str, dict[int, float]] = {name: {} for name in reading}
        self._twice: set[int] = set()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=target, daemon=True) for target in reading.values()]
        for thread in self._threads:
            thread.start()

    def _kafka(self) -> None:
        topics = (self._places.output, self._places.rejected)
        begin = {(topic, number): 0 for topic in topics for number in range(PARTITIONS)}
        consumer = committed_reader(self._arena.servers, begin)
        late_ms = self._late_ms["kafka"]
        while not self._ended.is_set():
            for read in consumer.consume(500, 0.02):
                now_ms = time.time() * 1000
                if (value := read.value()) is None or read.error():
                    continue
                row = orjson.loads(value)
                if row["id"] in late_ms:
                    self._twice.add(row["id"])
                late_ms[row["id"]] = now_ms - row["ts"]
        consumer.close()

    def _table(self) -> None:
        late_ms = self._late_ms["table"]
        newest = -1
        query = f"SELECT id, ts FROM {self._places.table} WHERE id > %s"
        with psycopg.connect(self._arena.dsn, autocommit=True) as connection:
            while not self._ended.wait(TABLE_EVERY_S):
                # Two tasks commit apart from each other in some systems: the newest rows are looked at again.
                rows = connection.execute(query, [newest - LOOK_BACK_S * ROWS_PER_S]).fetchall()
                now_ms = time.time() * 1000
                for number, ts in rows:
                    late_ms.setdefault(number, now_ms - ts)
                    newest = max(newest, number)

    def wait_for(self, rows: int, limit_s: float, alive: Callable[[], None]) -> None:
        """Until the ids below `rows` were seen everywhere. Raises `TimeoutError`."""
        deadline = time.monotonic() + limit_s
        wanted = {"kafka": rows, "table": wanted_in_table(rows)}
        while any(len(late) < wanted[name] for name, late in self._late_ms.items()):
            alive()
            if time.monotonic() > deadline:
                found = {name: len(late) for name, late in self._late_ms.items()}
                raise TimeoutError(f"of {rows} rows {found} were seen within {limit_s:g} s")
            time.sleep(0.02)

    def figures(self, counted_from: int) -> dict[str, float]:
        """Percentiles in milliseconds. Raises `TimeoutError` for a row that came twice: the run is void."""
        if self._twice:
            raise TimeoutError(f"{len(self._twice)} rows came twice")
        found = {}
        for name, late in self._late_ms.items():
            values = [ms for number, ms in late.items() if number >= counted_from]
            for percent in (50, 99):
                found[f"{name}_p{percent}_ms"] = float(np.percentile(values, percent))
        return found

    def close(self) -> None:
        """End all."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
