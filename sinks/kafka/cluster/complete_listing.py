"""Checks that a listing is complete before it is used.

ListGroups and ListTransactions ask every broker, and a broker leaves out what it does not coordinate yet. So right
after a restart a listing can lack entries without an error (seen: a committed marker was missing). Groups and
transactional ids are distributed over the partitions of an internal topic by the hash of their name. So one name for
each partition is looked up; this fails while a coordinator is loading, moving or down.
"""

from __future__ import annotations

from functools import lru_cache

from tpc.sinks.kafka.cluster.group_offsets import group_offsets
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.transactions import TransactionClient

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


def require_all_groups(cluster: KafkaCluster, client: TransactionClient) -> None:
    """Raise `TransientError` unless every group coordinator is ready."""
    count = cluster.partitions(GROUPS_TOPIC)
    if count is not None:
        group_offsets(client, names_for_partitions(count), stable=False)


def require_all_transactions(cluster: KafkaCluster, client: TransactionClient) -> None:
    """Raise `TransientError` unless every transaction coordinator is ready."""
    count = cluster.partitions(TRANSACTIONS_TOPIC)
    if count is not None:
        client.describe(names_for_partitions(count))


@lru_cache(maxsize=8)
def names_for_partitions(count: int) -> tuple[str, ...]:
    """One name for each of `count` partitions; no group and no transaction ever uses one of them."""
    names: dict[int, str] = {}
    number = 0
    while len(names) < count:
        name = f"tpc~probe~{number}"
        names.setdefault(partition_of(name, count), name)
        number += 1
    return tuple(names[partition] for partition in range(count))


def partition_of(name: str, count: int) -> int:
    """The partition of a group or a transactional id: |Java's `String.hashCode`| modulo `count`."""
    value = 0
    for character in name:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % count
