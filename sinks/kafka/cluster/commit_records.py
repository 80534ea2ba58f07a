"""Kafka's own commit records: what tells whether every partition of a transaction has got its own, and writing them.

A transaction is committed when its coordinator says so, and readers see its rows when each partition holds a commit
record. Between the two brokers lose records: Kafka 4.3.1 takes a partition that has no leader at that moment for one
that was deleted, leaves it out, and calls the transaction complete (measured: its only replica in step was killed just
before EndTxn). Nothing makes up for it later. The rows lie in the log, unseen, every later row of the partition waits
behind them, and whoever aborts what hangs there loses them.

This module asks and writes; when it must be done is the affair of `tpc.sinks.kafka.driver.completeness`.
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
"""A topic and a number."""

_OF_CLIENTS = 3
"""The newest version of the requests that clients, and not brokers, add partitions and groups with."""


@dataclass(frozen=True)
class Sight:
    """What the coordinator `node` says of a transactional id, and a moment later of partitions.

    `leader_epochs`: which of its leaders a partition has, counted by Kafka: the number rises with every change, also
    when a leader goes and the same one comes back. None: it has no leader. Left out: what this user may not see.
    """

    node: int
    description: Description | Reply
    leader_epochs: Mapping[Partition, int | None]


@dataclass(frozen=True)
class Missing:
    """The commit records to be written again for one transaction, as its id stands now."""

    transaction: Transaction
    partitions: Collection[Partition]
    groups: Sequence[str]
    """The consumer groups whose offsets were part of it."""


def look(client: TransactionClient, names: Sequence[str], topics: Sequence[str]) -> dict[str, Sight]:
    """What the coordinators of these ids see of them and of the topics' partitions.

    Left out is what cannot be had now: a coordinator that is away must not hold up the others. Raises `TransientError`
    where there is no connection at all.
    """

    async def one(admin: Any, there: tuple[int, list[str]]) -> dict[str, Sight]:
        try:
            return await seen(admin, *there)
        except AuthorizationError:
            raise
        except (KafkaError, OSError):
            return {}

    async def seen(admin: Any, node: int, ids: list[str]) -> dict[str, Sight]:
        described = await admin._manager.send(DescribeTransactionsRequest(transactional_ids=ids), node_id=node)
        wanted = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        epochs = _leader_epochs(await admin._manager.send(request, node_id=node))
        return {
            name: Sight(node, description, epochs)
            for name, description in map(description_of, described.transaction_states)
        }

    async def ask(admin: Any) -> dict[str, Sight]:
        coordinators = await _known_coordinators(admin, names)
        found = await each(admin, one, list(coordinators.items()))
        for name in names:
            forget(admin, TRANSACTION, name)
        return {name: sight for sights in found for name, sight in sights.items()}

    sights: dict[str, Sight] = client.run(ask, "the leaders of partitions")
    return sights


async def _known_coordinators(admin: Any, names: Sequence[str]) -> dict[int, list[str]]:
    """One question for all, which fails as a whole; then one for each."""
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
    """Commit each transaction once more with these partitions and groups in it: nothing but commit records is written.

    It takes the rights that the rows were written with. The id is open between two requests: whoever finds it so with
    the epoch that its commit left finishes this. Of answers that pass by themselves the last within `timeout_s` counts.
    Raises `ConfigurationError` for a right that is missing.
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
    except (KafkaError, OSError) as error:  # the others are under way, and their ids may be open
        return Reply(UNANSWERED, f"{type(error).__name__}: {error}")
    finally:
        forget(admin, TRANSACTION, missing.transaction.transactional_id)  # it may have moved


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
    """The partition of groups is added by group, which takes no right on Kafka's own topic."""
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
