"""What a Kafka broker shows to a reader of committed records, read with a plain consumer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tpc.chaos.running.quiet import quiet
from tpc.errors import LocalStackError
from tpc.support.deadlines import patiently

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

READ_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class KafkaRecord:
    """A record with its place; `headers` holds the last value of each name, as text."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]


def read_topic(servers: str, topic: str) -> Iterator[KafkaRecord]:
    """Every committed record of a topic, up to where it ends now. Raises `LocalStackError` after a minute's silence.

    That a reader has come to an end does not say so: a broker that has just begun to lead shows it less than there is,
    until the others have asked it for more. Asked where the partition ends it refuses to tell meanwhile.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "tpc-checker",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "queued.max.messages.kbytes": 65536,
        },
        logger=quiet,
    )
    try:
        known = consumer.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic]
        places = [TopicPartition(topic, partition, 0) for partition in known.partitions]
        again_on = (KafkaException, LocalStackError)
        ends = {
            at.partition: patiently(partial(_end, consumer, at), READ_TIMEOUT_S, again_on=again_on) for at in places
        }
        open_partitions = set(ends)
        consumer.assign(places)
        heard = time.monotonic()
        while open_partitions:
            for message in _come(consumer, 1.0):
                heard = time.monotonic()
                error = message.error()
                if error is None:
                    yield record_of(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    partition, offset = message.partition() or 0, message.offset() or 0
                    if offset >= ends[partition]:
                        open_partitions.discard(partition)
                elif not error.retriable():
                    raise LocalStackError(f"topic {topic} cannot be read: {error}")
            if time.monotonic() - heard > READ_TIMEOUT_S:
                raise LocalStackError(f"topic {topic} cannot be read to its end: silence for {READ_TIMEOUT_S:g} s")
    finally:
        consumer.close()


def _come(consumer: Consumer, timeout_s: float) -> list[Message]:
    """What has come; else the first that comes in time. `consume` waits for as many as it is asked for, or the time."""
    first = consumer.consume(1, timeout=timeout_s)
    return [*first, *consumer.consume(10_000, timeout=0)] if first else []


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """Where a reader of committed records comes to its end, as the leader says."""
    bounds = consumer.get_watermark_offsets(place, timeout=ANSWER_TIMEOUT_S)
    if bounds is None:
        raise LocalStackError(f"topic {place.topic}: where partition {place.partition} ends was not told")
    return int(bounds[1])


def record_of(message: Any) -> KafkaRecord:
    """A message of a consumer."""
    headers = {name: (value or b"").decode() for name, value in message.headers() or ()}
    return KafkaRecord(message.topic(), message.partition(), message.offset(), message.key(), message.value(), headers)


def ongoing_transactions(servers: str, prefix: str = "") -> list[str]:
    """The transactional ids, those beginning with `prefix`, of what is open or about to be ended on the cluster."""
    from tpc.sinks.kafka.cluster.raw_requests import admin_client

    admin = admin_client(bootstrap_servers=servers.split(","), request_timeout_ms=int(ANSWER_TIMEOUT_S * 1000))
    try:
        per_broker = admin.list_transactions(state_filters=["Ongoing", "PrepareCommit", "PrepareAbort"])
    finally:
        admin.close()
    listings = [listing for of_one_broker in per_broker.values() for listing in of_one_broker]
    named = [listing for listing in listings if listing.transactional_id.startswith(prefix)]
    return sorted(f"{listing.transactional_id} ({listing.state.value})" for listing in named)


def group_lag(servers: str, group: str, topics: tuple[str, ...]) -> dict[str, tuple[int | None, int]]:
    """For each partition of `topics`: the group's committed offset (None if it has none) and the partition's end."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False}, logger=quiet)
    try:
        places = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in consumer.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic].partitions
        ]
        lag = {}
        for place in consumer.committed(places, timeout=ANSWER_TIMEOUT_S):
            _, end = consumer.get_watermark_offsets(place, timeout=ANSWER_TIMEOUT_S)
            lag[f"{place.topic}/{place.partition}"] = (place.offset if place.offset >= 0 else None, end)
        return lag
    finally:
        consumer.close()
