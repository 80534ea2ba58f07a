"""Making sure that a listing is complete before it is believed.

ListGroups and ListTransactions ask every broker, and a broker leaves out what it does not coordinate yet: right after
a restart a listing is short without an error (seen: a committed marker missing). Groups and transactional ids are
spread over the partitions of an internal topic by the hash of their name, so one name for each partition is asked
for; while a coordinator is loading, moving or away, that question fails.
"""

from __future__ import annotations

from functools import lru_cache

from tpc.sinks.kafka.cluster.group_offsets import group_offsets
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.transactions import TransactionClient

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


def require_all_groups(cluster: KafkaCluster, client: TransactionClient) -> None:
    """Raise `TransientError` unless every group coordinator is at work."""
    count = cluster.partitions(GROUPS_TOPIC)
    if count is not None:
        group_offsets(client, names_for_partitions(count), stable=False)


def require_all_transactions(cluster: KafkaCluster, client: TransactionClient) -> None:
    """Raise `TransientError` unless every transaction coordinator is at work."""
    count = cluster.partitions(TRANSACTIONS_TOPIC)
    if count is not None:
        client.describe(names_for_partitions(count))


@lru_cache(maxsize=8)
def names_for_partitions(count: int) -> tuple[str, ...]:
    """One name for each of `count` partitions, none of them ever used by a group or a transaction."""
    names: dict[int, str] = {}
    number = 0
    while len(names) < count:
        name = f"tpc~probe~{number}"
        names.setdefault(partition_of(name, count), name)
        number += 1
    return tuple(names[partition] for partition in range(count))


def partition_of(name: str, count: int) -> int:
    """Where Kafka puts a group or a transactional id: the absolute value of Java's `String.hashCode`, modulo."""
    value = 0
    for character in name:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % count
