"""The committed offsets of consumer groups, read with a raw OffsetFetch and written with a raw OffsetCommit.

confluent-kafka can read them too, and must not be used for it: librdkafka 2.16 ends the whole process with a
segmentation fault if the group's coordinator answers that it is loading or has moved, as after any restart of a broker
(librdkafka#5040, reproduced).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest

from tpc.errors import ConfigurationError, TransientError
from tpc.sinks.kafka.cluster.answers import NONE, Reply
from tpc.sinks.kafka.cluster.raw_requests import (
    GROUP,
    RawClient,
    by_coordinator,
    each,
    forget,
    look_up,
    reply_of,
    to_coordinator,
)

_UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
_REFUSALS = ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED")


@dataclass(frozen=True)
class Offset:
    """A committed offset of a group. `unstable`: a transaction that would change it has not ended yet."""

    topic: str
    partition: int
    offset: int
    metadata: str
    unstable: bool = False


def group_offsets(client: RawClient, groups: Sequence[str], *, stable: bool) -> dict[str, list[Offset]]:
    """All committed offsets of each group; a group that has none or does not exist has an empty list.

    With `stable` an offset with an open transaction is marked `unstable`; without it, it is the offset before that
    transaction. Raises `TransientError`.
    """

    async def one(admin: Any, group: str) -> list[Offset]:
        # Version 7 is the newest one for a single group that brokers from 2.5 to 4.x know.
        request = OffsetFetchRequest(group_id=group, topics=None, require_stable=stable, min_version=7, max_version=7)
        response = await to_coordinator(admin, GROUP, group, request)
        forget(admin, GROUP, group)
        return _offsets(group, response)

    async def ask(admin: Any) -> dict[str, list[Offset]]:
        await look_up(admin, GROUP, groups)
        return dict(zip(groups, await each(admin, one, groups), strict=True))

    offsets: dict[str, list[Offset]] = client.run(ask, "OffsetFetch")
    return offsets


def commit_offset(client: RawClient, group: str, offset: Offset) -> None:
    """Commit one offset outside of any transaction, for a group without members; it is replicated on return.

    Raises `ConfigurationError` if the user may not, `TransientError` for any other answer.
    """
    topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic_type.OffsetCommitRequestPartition(
        partition_index=offset.partition, committed_offset=offset.offset, committed_metadata=offset.metadata
    )
    # Brokers from 2.3 to 4.x know version 7; 10 no longer names topics.
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[topic_type(name=offset.topic, partitions=[partition])],
        min_version=7,
        max_version=7,
    )

    async def ask(admin: Any) -> Reply:
        coordinators = await by_coordinator(admin, GROUP, [group])
        response = await admin._manager.send(request, node_id=next(iter(coordinators)))
        forget(admin, GROUP, group)
        return reply_of(response.topics[0].partitions[0].error_code)

    reply: Reply = client.run(ask, "OffsetCommit")
    if reply.name in _REFUSALS:
        raise ConfigurationError(
            f"this user may not commit an offset of topic {offset.topic} to group {group}: {reply}",
            remedy="grant it Read on the topic, and Read and Describe on groups that begin with 'tpc~'.",
        )
    if reply.name != NONE:
        raise TransientError(f"Kafka did not take the offset of group {group}: {reply}")


def _offsets(group: str, response: Any) -> list[Offset]:
    whole = reply_of(response.error_code)
    if whole.name != NONE:
        raise TransientError(f"Kafka did not return the offsets of group {group}: {whole}")
    offsets = []
    for topic in response.topics:
        for partition in topic.partitions:
            reply = reply_of(partition.error_code)
            if reply.name == _UNSTABLE:
                offsets.append(Offset(topic.name, partition.partition_index, -1, "", unstable=True))
            elif reply.name != NONE:
                raise TransientError(f"Kafka did not return the offsets of group {group}: {reply}")
            elif partition.committed_offset >= 0:
                metadata = (partition.metadata or "").rstrip("\0")  # confluent-kafka also writes the C string's NUL
                offsets.append(Offset(topic.name, partition.partition_index, partition.committed_offset, metadata))
    return offsets
