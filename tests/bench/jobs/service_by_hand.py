"""What one would write instead of tpc's loop: one transactional producer and consumer, one commit after the other.

Exactly once in Kafka: rows, offsets and, with a state, the new value of every changed key in a changelog topic are one
transaction. How the state is read back from its changelog after a crash is not written here.
"""

from __future__ import annotations

import argparse
import time

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from service_arguments import Clock, arguments, customer, gain, started, told

DEADLINE_S = 60.0
CHUNK = 10_000


class Loop:
    """Reads `source` to its end, or follows it."""

    def __init__(self, given: argparse.Namespace, source: str) -> None:
        self.given = given
        self.source = source
        self.totals: dict[str, tuple[int, float]] = {}
        self.changed: set[str] = set()
        self.consumer = Consumer(
            {
                "bootstrap.servers": given.servers,
                "group.id": f"{source}-by-hand",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": not given.follow,
                "auto.offset.reset": "error",
                "fetch.queue.backoff.ms": 10,  # as tpc reads; the client rests for a second by itself
            }
        )
        topic = self.consumer.list_topics(source, timeout=DEADLINE_S).topics[source]
        self.left = set(topic.partitions)
        self.consumer.assign([TopicPartition(source, number, 0) for number in topic.partitions])
        self.next = dict.fromkeys(topic.partitions, 0)
        self.producer = Producer(
            {
                "bootstrap.servers": given.servers,
                "transactional.id": f"{source}-by-hand",
                "linger.ms": given.linger_ms,
                "batch.size": given.batch_bytes,
                "queue.buffering.max.messages": 1_000_000,
                "compression.type": given.compression,
                "partitioner": "murmur2_random",
            }
        )
        self.producer.init_transactions(DEADLINE_S)

    def run(self, clock: Clock | None = None) -> None:
        """One transaction after the other."""
        if clock is not None:
            clock.reads()
        while self.left:
            self._transaction()
        self.consumer.close()

    def _transaction(self) -> None:
        given, rows, until = self.given, 0, None
        most = given.rows_per_epoch or 100_000
        while self.left and rows < most:
            wait_s = 0.2 if until is None else max(0.0, until - time.monotonic())
            messages = self.consumer.consume(min(CHUNK, most - rows) if rows else 1, wait_s)
            if messages and not rows:  # what else has come: `consume` waits for all that it is asked for
                messages += self.consumer.consume(min(CHUNK, most) - 1, 0)
            for read in messages:
                if (error := read.error()) is not None:
                    self._end_of(read, error)
                    continue
                if not rows:
                    self.producer.begin_transaction()
                    until = None if given.rows_per_epoch else time.monotonic() + given.interval_ms / 1000
                rows += 1
                self._row(read)
            self.producer.poll(0)
            if until is not None and time.monotonic() >= until:
                break
        if rows:
            self._commit()

    def _end_of(self, read: Message, error: KafkaError) -> None:
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        self.left.discard(read.partition())

    def _row(self, read: Message) -> None:
        row = orjson.loads(read.value() or b"")
        number, late = row["id"], gain(row)
        key = customer(number)
        text = {"id": number, "origin": row["origin"], "dest": row["dest"], "ts": row["ts"], "gain": late}
        if self.given.state:
            count, total = self.totals.get(key, (0, 0.0))
            self.totals[key] = text["count"], text["total"] = count + 1, total + late
            self.changed.add(key)
        self.producer.produce(self.given.output, orjson.dumps(text), key)
        self.next[read.partition()] = (read.offset() or 0) + 1

    def _commit(self) -> None:
        for key in self.changed:
            self.producer.produce(self.given.changelog, orjson.dumps(self.totals[key]), key)
        self.changed.clear()
        offsets = [TopicPartition(self.source, number, at) for number, at in self.next.items()]
        self.producer.send_offsets_to_transaction(offsets, self.consumer.consumer_group_metadata(), DEADLINE_S)
        self.producer.commit_transaction(DEADLINE_S)


def main() -> None:
    """A first topic to warm up, then the one that is measured; or only that, for ever."""
    given = arguments()
    if given.follow:
        started()
        Loop(given, given.source).run()
        return
    for source in (given.warm_up, given.source):
        began = Clock()
        Loop(given, source).run(began)
        told(source, began)


if __name__ == "__main__":
    main()
