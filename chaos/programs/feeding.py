"""Input for the programs: JSON messages in a Kafka topic, and the topics and tables that must be there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tpc.chaos.flights.topics import PARTITIONS, create_topics
from tpc.chaos.running.quiet import quiet
from tpc.errors import LocalStackError

DELIVERY_TIMEOUT_S = 60.0


COMPACTED = {"cleanup.policy": "compact"}


def make_topics(*names: str, partitions: int = PARTITIONS, config: Mapping[str, str] | None = None) -> None:
    """On the broker that TPC_KAFKA names. Raises `ConfigurationError` when one is there already."""
    create_topics(os.environ["TPC_KAFKA"], names, partitions=partitions, config=config)


def make_tables(*statements: str) -> None:
    """In the database that TPC_POSTGRES names."""
    import psycopg

    with psycopg.connect(os.environ["TPC_POSTGRES"], connect_timeout=10) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def write_messages(topic: str, messages: Iterable[Mapping[str, Any]], *, key: str) -> None:
    """Each message once, in this order per key: all of one key are in one partition.

    Raises `LocalStackError` when the broker does not take all.
    """
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": os.environ["TPC_KAFKA"], "enable.idempotence": True}, logger=quiet)
    for message in messages:
        producer.produce(topic, json.dumps(message), key=str(message[key]))
        producer.poll(0)
    if left := producer.flush(DELIVERY_TIMEOUT_S):
        raise LocalStackError(f"the broker did not take {left} messages for topic {topic}")


def rows_of(frame: Any, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Those columns of a pandas frame as rows of plain Python values."""
    values = [frame[name].tolist() for name in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
