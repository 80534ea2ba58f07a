"""Owner entries of the Kafka sinks: one committed offset in a consumer group of its own per pipeline and sink.

The group's name is `{pipeline prefix}owner~{sink}`. It has two fields fewer than a transactional id or marker group, so
that neither recovery nor pruning takes it for one. Its offset is the generation, its metadata the whole entry. Kafka
cannot compare and set an offset: the entry is read first, and of two coordinators at one moment the later writer
remains. Brokers delete the group after `offsets.retention.minutes` without a commit (7 days by default), so a
coordinator writes its entry again every few hours.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TypeAlias

from tpc.errors import ConfigurationError, CorruptionError
from tpc.handles import DELIMITER, PipelineId
from tpc.sink import Owner
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC
from tpc.sinks.kafka.cluster.group_offsets import Offset, commit_offset, group_offsets
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.raw_requests import RawClient
from tpc.sinks.shared.owner_entry import from_text, is_same_term, to_text

OwnerKey: TypeAlias = "tuple[PipelineId, str]"
"""A pipeline's incarnation, and the name of its sink."""


def owner_group(pipeline: PipelineId, sink: str) -> str:
    """The group that holds a sink's owner entry."""
    return f"{pipeline.prefix}owner{DELIMITER}{sink}"


class Owners:
    """Reads and writes owner entries. `topic`: the offsets name its partition 0; None: Kafka's topic of groups.

    Calls raise `TransientError`, also while a coordinator is loading or moving; they may be repeated.
    """

    def __init__(self, cluster: KafkaCluster, client: RawClient, topic: str | None) -> None:
        self._cluster = cluster
        self._client = client
        self._topic = GROUPS_TOPIC if topic is None else topic

    def read(self, pipeline: PipelineId, sink: str) -> Owner | None:
        """The entry of a sink of this incarnation. Raises `CorruptionError` for a group that holds something else."""
        group = owner_group(pipeline, sink)
        return _newest(group, group_offsets(self._client, [group], stable=False)[group])

    def read_all(self, keys: Collection[OwnerKey]) -> dict[OwnerKey, Owner | None]:
        """The entries of these sinks; one that cannot be read is left out."""
        groups = {key: owner_group(*key) for key in keys}
        offsets = group_offsets(self._client, list(groups.values()), stable=False) if groups else {}
        entries = {}
        for key, group in groups.items():
            with suppress(CorruptionError):
                entries[key] = _newest(group, offsets[group])
        return entries

    def replace(self, pipeline: PipelineId, sink: str, owner: Owner, before: Owner | None) -> bool:
        """Write `owner` if `before`, or `owner` itself, was read just before; False for another entry, or none.

        Raises `ConfigurationError` if there is no such topic, or if the user may not write it.
        """
        stored = self.read(pipeline, sink)
        if not is_same_term(stored, before) and not is_same_term(stored, owner):
            return False
        # The first request for a group creates the topic of groups; a broker may know it only a moment later.
        if self._topic != GROUPS_TOPIC and self._cluster.partitions(self._topic) is None:
            raise ConfigurationError(
                f"Kafka has no topic {self._topic!r}, or this user may not see it",
                pipeline=str(pipeline),
                sink=sink,
                remedy="create it (kafka-topics.sh --create --topic ...), or grant Describe and Read on it.",
            )
        entry = Offset(self._topic, 0, owner.generation, to_text(owner))
        commit_offset(self._client, owner_group(pipeline, sink), entry)
        return True


def _newest(group: str, offsets: list[Offset]) -> Owner | None:
    """The entry of the highest generation; there are several if the sink's topic has changed."""
    entries = [from_text(offset.metadata, f"consumer group {group}") for offset in offsets]
    return max(entries, key=lambda owner: (owner.generation, owner.since), default=None)
