"""Kafka's own commit records: finds whether every partition of a transaction may have its record, and writes them.

A transaction is committed when its coordinator says so, but readers see its rows only once each partition holds a
commit record. Brokers can lose records between the two. Kafka 4.3.1 takes a partition without a leader at that moment
for a deleted one, leaves it out, and reports the transaction as complete (measured: its only in-sync replica was killed
just before EndTxn). Nothing repairs that later. The rows are in the log but invisible, and every later row of the
partition waits behind them. An abort of the hanging transaction would lose them.

This module asks and writes; `tpc.sinks.kafka.driver.completeness` decides when.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from kafka.errors import AuthorizationError, KafkaError
from kafka.protocol.admin.transactions import DescribeTransactionsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer.transaction import AddOffsetsToTxnRequest, AddPartitionsToTxnRequest

from tpc.errors import TransientError
from tpc.sinks.kafka.cluster.answers import NONE, RETRIABLE, UNANSWERED, Description, Reply, Transaction
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC
from tpc.sinks.kafka.cluster.raw_requests import TRANSACTION, by_coordinator, each, forget, reply_of, to_coordinator
from tpc.sinks.kafka.cluster.transactions import TransactionClient, description_of, end_one
from tpc.support.deadlines import until

Partition: TypeAlias = "tuple[str, int]"
"""A topic and a partition number."""

_OF_CLIENTS = 3
"""The newest version of the requests with which clients, and not brokers, add partitions and groups."""


@dataclass(frozen=True)
class TransactionSnapshot:
    """What the coordinator `node` says about a transactional id, and a moment later about partitions.

    `leader_epochs`: Kafka's number of the partition's leader. It rises with every change, also if a leader fails and
    the same one comes back. None: no leader. Partitions that this user may not see are left out.
    """

    node: int
    description: Description | Reply
    leader_epochs: Mapping[Partition, int | None]


@dataclass(frozen=True)
class Missing:
    """The commit records to be written again for one transaction, with the present state of its id."""

    transaction: Transaction
    partitions: Collection[Partition]
    groups: Sequence[str]
    """The consumer groups whose offsets were part of it."""


def look(client: TransactionClient, names: Sequence[str], topics: Sequence[str]) -> dict[str, TransactionSnapshot]:
    """What the coordinators of these ids report about them and about the topics' partitions.

    Ids without an answer now are left out: a coordinator that is down must not block the others. Raises
    `TransientError` if there is no connection at all.
    """

    async def one(admin: Any, there: tuple[int, list[str]]) -> dict[str, TransactionSnapshot]:
        try:
            return await seen(admin, *there)
        except AuthorizationError:
            raise
        except (KafkaError, OSError):
            return {}

    async def seen(admin: Any, node: int, ids: list[str]) -> dict[str, TransactionSnapshot]:
        described = await admin._manager.send(DescribeTransactionsRequest(transactional_ids=ids), node_id=node)
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        epochs = _leader_epochs(await admin._manager.send(request, node_id=node))
        return {
            name: TransactionSnapshot(node, description, epochs)
            for name, description in map(description_of, described.transaction_states)
        }

    async def ask(admin: Any) -> dict[str, TransactionSnapshot]:
        coordinators = await _known_coordinators(admin, names)
        found = await each(admin, one, list(coordinators.items()))
        for name in names:
            forget(admin, TRANSACTION, name)
        return {name: snapshot for snapshots in found for name, snapshot in snapshots.items()}

    snapshots: dict[str, TransactionSnapshot] = client.run(ask, "the leaders of partitions")
    return snapshots


async def _known_coordinators(admin: Any, names: Sequence[str]) -> dict[int, list[str]]:
    """The coordinators of these ids: one request for all, which fails as a whole; then one request for each."""
    with suppress(KafkaError, OSError):
        return await by_coordinator(admin, TRANSACTION, names)

    async def one(admin: Any, name: str) -> dict[int, list[str]]:
        try:
            return await by_coordinator(admin, TRANSACTION, [name])
        except (KafkaError, OSError):
            return {}

    grouped: dict[int, list[str]] = {}
    for found in await each(admin, one, names):
        for node, there in found.items():
            grouped.setdefault(node, []).extend(there)
    return grouped


def write_again(client: TransactionClient, missing: Sequence[Missing], timeout_s: float) -> list[Reply]:
    """Commit each transaction once more with these partitions and groups in it: that writes only commit records.

    It needs the rights with which the rows were written. Between two requests the id is open: a process that finds it
    open, with the epoch that its commit left, must finish this. Retriable answers are repeated for `timeout_s`. Raises
    `ConfigurationError` for a missing right.
    """
    replies = [Reply(UNANSWERED)] * len(missing)
    left = list(range(len(missing)))

    async def ask(admin: Any) -> list[Reply]:
        return await each(admin, _write_one, [missing[index] for index in left])

    def settled() -> bool:
        nonlocal left
        try:
            answers = client.run(ask, "commit records")
        except TransientError as error:
            answers = [Reply(UNANSWERED, error.what)] * len(left)
        for index, answer in zip(left, answers, strict=True):
            replies[index] = answer
        left = [index for index in left if replies[index].name in RETRIABLE]
        return not left

    if missing:
        until(settled, timeout_s)
    return replies


async def _write_one(admin: Any, missing: Missing) -> Reply:
    try:
        return await _write_records(admin, missing)
    except AuthorizationError:
        raise
    except (KafkaError, OSError) as error:  # not raised: the other requests are under way, and their ids may be open
        return Reply(UNANSWERED, f"{type(error).__name__}: {error}")
    finally:
        forget(admin, TRANSACTION, missing.transaction.transactional_id)  # the coordinator may have changed


async def _write_records(admin: Any, missing: Missing) -> Reply:
    transaction = missing.transaction
    name, producer = transaction.transactional_id, (transaction.producer_id, transaction.producer_epoch)
    if topics := _by_topic(missing.partitions):
        response = await to_coordinator(admin, TRANSACTION, name, _add_partitions(name, producer, topics))
        for topic in response.results_by_topic_v3_and_below:
            for partition in topic.results_by_partition:
                if (reply := reply_of(partition.partition_error_code)).name != NONE:
                    return reply
    for group in missing.groups:
        response = await to_coordinator(admin, TRANSACTION, name, _add_offsets(name, producer, group))
        if (reply := reply_of(response.error_code)).name != NONE:
            return reply
    return await end_one(admin, transaction, commit=True)


def _add_partitions(name: str, producer: tuple[int, int], topics: Mapping[str, list[int]]) -> AddPartitionsToTxnRequest:
    added = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
        for topic, numbers in topics.items()
    ]
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=added,
        max_version=_OF_CLIENTS,
    )


def _add_offsets(name: str, producer: tuple[int, int], group: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group,
        max_version=_OF_CLIENTS,
    )


def _by_topic(partitions: Collection[Partition]) -> dict[str, list[int]]:
    """Partitions by topic, without those of groups: these are added by group, which needs no right on Kafka's topic."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        if topic != GROUPS_TOPIC:
            topics.setdefault(topic, []).append(number)
    return topics


def _leader_epochs(metadata: Any) -> dict[Partition, int | None]:
    return {
        (str(topic.name), int(partition.partition_index)): (
            int(partition.leader_epoch) if partition.error_code == 0 and partition.leader_id >= 0 else None
        )
        for topic in metadata.topics
        if topic.error_code == 0
        for partition in topic.partitions
    }
