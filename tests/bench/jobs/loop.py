"""The limit of plain Python: a hand-written transactional loop, one process per partition.

Kafka is exactly once by transactions that hold the offsets; PostgreSQL is committed just before each, uncoordinated: a
crash in between makes the table's key stop the repetition.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from typing import Any

import orjson
import psycopg
from arguments import parser
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

PARTITIONS = 2
DEADLINE_S = 60.0


class Loop:
    """Consume, compute, produce; one transaction for each interval in which something came."""

    def __init__(self, given: argparse.Namespace, partition: int) -> None:
        self.given = given
        self.partition = partition
        group = f"{given.source}-loop"
        self.consumer = Consumer(
            {
                "bootstrap.servers": given.servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 65536,
            }
        )
        self.consumer.assign([TopicPartition(given.source, partition, 0)])
        self.producer = Producer(
            {
                "bootstrap.servers": given.servers,
                "transactional.id": f"{group}-{partition}",
                "linger.ms": given.linger_ms,
                "batch.size": given.batch_bytes,
                "queue.buffering.max.messages": 1_000_000,
                "transaction.timeout.ms": 60_000,
                "compression.type": given.compression,
            }
        )
        self.producer.init_transactions(DEADLINE_S)
        self.postgres = psycopg.connect(given.dsn) if given.table else None

    def run(self) -> None:
        """Until terminated."""
        while True:
            self._transaction()

    def _transaction(self) -> None:
        table: list[tuple[Any, ...]] = []
        until, next_offset = None, 0
        while until is None or time.monotonic() < until:
            for read in self.consumer.consume(
                2000, 0.05 if until is None else min(0.05, max(0.0, until - time.monotonic()))
            ):
                if until is None:
                    self.producer.begin_transaction()
                    until = time.monotonic() + self.given.interval_ms / 1000
                self._row(read, table)
                next_offset = (read.offset() or 0) + 1
            self.producer.poll(0)
        self._commit(table, next_offset)

    def _row(self, read: Message, table: list[tuple[Any, ...]]) -> None:
        if read.error():
            raise KafkaException(read.error())
        value = read.value()
        assert value is not None
        row = orjson.loads(value)
        number, origin, dest, ts = row["id"], row["origin"], row["dest"], row["ts"]
        gain = row["dep_delay"] - row["distance"] / 60.0
        text = orjson.dumps({"id": number, "origin": origin, "dest": dest, "ts": ts, "gain": gain})
        good = number % 100 != 0
        self.producer.produce(self.given.output if good else self.given.rejected, text, str(number))
        if good and self.postgres is not None:
            table.append((number, origin, dest, ts, gain))

    def _commit(self, table: list[tuple[Any, ...]], next_offset: int) -> None:
        if self.postgres is not None and table:
            copy = f"COPY {self.given.table} (id, origin, dest, ts, gain) FROM STDIN"
            with self.postgres.cursor() as cursor, cursor.copy(copy) as rows:
                for row in table:
                    rows.write_row(row)
            self.postgres.commit()
        offset = TopicPartition(self.given.source, self.partition, next_offset)
        self.producer.send_offsets_to_transaction([offset], self.consumer.consumer_group_metadata(), DEADLINE_S)
        self.producer.commit_transaction(DEADLINE_S)


def _run(given: argparse.Namespace, partition: int) -> None:
    Loop(given, partition).run()


def main() -> None:
    """Run until terminated."""
    given = parser().parse_args()
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_run, args=(given, number), daemon=True) for number in range(PARTITIONS)]
    for process in processes:
        process.start()
    print("STARTED", flush=True)  # noqa: T201  what the harness waits for
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
