"""Markers: they distinguish a committed branch from one that was never prepared.

Inside its transaction every branch commits one offset to a consumer group with the name of its transactional id. The
offset is the epoch, its metadata the handle. It becomes visible together with the rows. So a marker with a handle
proves that this branch is committed; a missing one proves nothing. Brokers delete a group without members after
`offsets.retention.minutes` (7 days by default), and any offset together with the topic that it names. If rows may go to
several topics, the marker names Kafka's own topic of groups, which is never deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.handles import Handle, PipelineId
from tpc.sink import Marker
from tpc.sinks.kafka.cluster.answers import ENDING, NOT_FOUND, Description, Reply
from tpc.sinks.kafka.cluster.complete_listing import require_all_groups
from tpc.sinks.kafka.cluster.group_offsets import Offset, group_offsets
from tpc.sinks.kafka.cluster.questions import KafkaCluster
from tpc.sinks.kafka.cluster.transactional_ids import TransactionalId
from tpc.sinks.kafka.cluster.transactions import TransactionClient
from tpc.sinks.kafka.librdkafka import librdkafka_log
from tpc.support.deadlines import until

logger = logging.getLogger(__name__)

_PLACEHOLDER = "tpc-group-of-a-marker"
SETTLE_S = 5.0
"""How long to wait for a transaction that is being ended; normally that takes milliseconds."""


def group_metadata(group: str) -> bytes:
    """The argument that `send_offsets_to_transaction` needs for a group without members.

    confluent-kafka makes it only from a consumer. It is a serialised record that holds the group's name once. So one
    consumer per process, which never connects, is enough for all groups. Raises `ConfigurationError` if that changed.
    """
    template = _template()
    if template.count(_PLACEHOLDER.encode()) != 1:
        raise ConfigurationError(
            "this version of confluent-kafka describes a consumer group in an unknown form",
            remedy="install confluent-kafka 2.16.1, which it was tested with.",
        )
    return template.replace(_PLACEHOLDER.encode(), group.encode())


@lru_cache(maxsize=1)
def _template() -> bytes:
    from confluent_kafka import Consumer

    consumer = Consumer({"group.id": _PLACEHOLDER, "logger": librdkafka_log})
    try:
        return bytes(consumer.consumer_group_metadata())
    finally:
        consumer.close()


def handle_of(offset: Offset) -> Handle | None:
    """The handle in a marker; None for an offset that is not a marker."""
    try:
        handle = Handle.parse(offset.metadata)
    except CorruptionError:
        return None
    return handle if handle.epoch == offset.offset else None


class Markers:
    """Reads and prunes the markers of one pipeline's sink."""

    def __init__(self, cluster: KafkaCluster, client: TransactionClient, pipeline: PipelineId, sink: str) -> None:
        self._cluster = cluster
        self._client = client
        self._pipeline = pipeline
        self._sink = sink
        self._stay_pending: set[str] = set()
        """Groups that were waited for and logged."""

    def committed(self, groups: Sequence[str]) -> dict[str, set[str]]:
        """The handles in each group's markers. Waits a moment for transactions that are being ended.

        Raises `TransientError` if the cluster does not answer, and while a marker is pending although its transaction
        is complete: neither that marker nor the one before it proves anything.
        """
        by_group, pending = self._stable(groups)
        if pending:
            raise self._still_pending(pending)
        return _handles(by_group)

    def shown(self, groups: Sequence[str]) -> dict[str, set[str]]:
        """The same without waiting for open or pending ones: for transactions that are known to have ended.

        Raises `TransientError`.
        """
        return _handles(group_offsets(self._client, groups, stable=False))

    def pending(self, groups: Sequence[str]) -> set[str]:
        """The groups with an offset that has an open transaction, or that the end of a transaction has left out.

        Raises `TransientError`.
        """
        return set(_unstable(group_offsets(self._client, groups, stable=True)))

    def newest(self, since_generation: int) -> Marker | None:
        """The marker of the highest epoch of this incarnation's sink, of generations from the given one on.

        If a marker is still pending after its transaction is complete, its previous value is used. Otherwise it would
        block every start, and so the commit that completes it. Of an epoch that is complete nothing completes it.
        """
        require_all_groups(self._cluster, self._client)
        return self._newest_listed(since_generation, self._stable_or_before)

    def newest_listed(self, since_generation: int) -> Marker | None:
        """The same from a listing that may lack entries: an entry is certain, a missing entry proves nothing.

        Raises `TransientError` for a pending marker, unless `newest` has found that it stays pending.
        """
        return self._newest_listed(since_generation, self._all_stable)

    def _newest_listed(
        self, since_generation: int, read: Callable[[Sequence[str]], Mapping[str, Sequence[Offset]]]
    ) -> Marker | None:
        groups = [str(name) for name in self._names(self._pipeline.prefix) if name.generation >= since_generation]
        handles = [
            handle
            for offsets in read(groups).values()
            for offset in offsets
            if (handle := handle_of(offset)) is not None
        ]
        newest = max(handles, key=lambda handle: (handle.epoch, handle.generation), default=None)
        return None if newest is None else Marker(newest.epoch, newest)

    def of_older_generations(self, generation: int) -> list[str]:
        """Groups of lower generations of this incarnation, and of lower incarnations."""
        now = (self._pipeline.incarnation, generation)
        names = self._names(self._pipeline.name_prefix)
        return [str(name) for name in names if (name.pipeline.incarnation, name.generation) < now]

    def delete(self, groups: Sequence[str]) -> int:
        """Delete markers that are no longer needed; returns how many were deleted."""
        return self._cluster.delete_groups(groups)

    def _names(self, prefix: str) -> list[TransactionalId]:
        return TransactionalId.for_sink(self._cluster.groups(prefix), self._pipeline.name, self._sink)

    def _all_stable(self, groups: Sequence[str]) -> dict[str, list[Offset]]:
        by_group, pending = self._stable(groups)
        self._stay_pending &= pending
        if new := pending - self._stay_pending:
            raise self._still_pending(new)
        return by_group

    def _still_pending(self, groups: Iterable[str]) -> TransientError:
        return TransientError(
            f"transactions of sink {self._sink} are complete, but their groups still hold the markers as pending: "
            f"{', '.join(sorted(groups))}"
        )

    def _stable_or_before(self, groups: Sequence[str]) -> dict[str, list[Offset]]:
        by_group: dict[str, list[Offset]] = {}
        pending: set[str] = set()

        def settled() -> bool:
            nonlocal by_group, pending
            by_group, pending = self._stable(groups)
            self._stay_pending &= pending
            return pending <= self._stay_pending

        if not until(settled, SETTLE_S):
            self._stay_pending |= pending
            logger.warning(
                "sink %s: transactions are complete, but their groups hold the markers as pending (%s). The previous "
                "values are used; the commit of an epoch that is not complete completes its own marker",
                self._sink,
                ", ".join(sorted(pending)),
            )
        return by_group

    def _stable(self, groups: Sequence[str]) -> tuple[dict[str, list[Offset]], set[str]]:
        """Committed offsets, once every transaction on them that is being ended has ended.

        A group's first marker is in no listing before it is committed, not even as unstable, so the coordinators are
        asked first. If the transaction of a marker is open, aborted or forgotten, its previous value is returned. So it
        is if a marker is pending although its transaction is complete; these groups are returned too.
        """
        if not groups:
            return {}, set()
        if not until(lambda: not self._in_states(groups, ENDING), SETTLE_S):
            raise TransientError(f"a Kafka transaction of sink {self._sink} has been ending for {SETTLE_S:g} s")
        by_group = group_offsets(self._client, groups, stable=True)
        unstable = _unstable(by_group)
        if not unstable:
            return by_group, set()
        described = self._client.describe(unstable)
        by_group.update(group_offsets(self._client, unstable, stable=False))
        return by_group, {group for group in unstable if _may_be_complete(described.get(group, Reply(NOT_FOUND)))}

    def _in_states(self, groups: Sequence[str], states: Sequence[str]) -> list[str]:
        described = self._client.describe(groups)
        return [name for name, one in described.items() if isinstance(one, Description) and one.state in states]


def _may_be_complete(description: Description | Reply) -> bool:
    """Whether the last transaction of an id may be committed. True if the coordinator does not answer that."""
    if isinstance(description, Reply):
        return description.name != NOT_FOUND
    return description.state not in ("Ongoing", "CompleteAbort")


def _unstable(by_group: Mapping[str, Sequence[Offset]]) -> list[str]:
    return [group for group, offsets in by_group.items() if any(offset.unstable for offset in offsets)]


def _handles(by_group: Mapping[str, Sequence[Offset]]) -> dict[str, set[str]]:
    return {group: {offset.metadata for offset in offsets} for group, offsets in by_group.items()}
