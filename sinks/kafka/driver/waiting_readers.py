"""Who waits for an open transaction: readers with `isolation.level=read_committed`, until its timeout. Plain values."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tpc.sinks.kafka.cluster.answers import Description, Reply
from tpc.sinks.kafka.cluster.complete_listing import GROUPS_TOPIC
from tpc.waiting import Waiting

_NAMED = 5
"""The most partitions that are named."""


def readers_waiting(
    described: Mapping[str, Description | Reply], epochs: Mapping[str, int], *, sees_groups: bool
) -> dict[str, Waiting]:
    """The open ones among `described`, by transactional id; `epochs` are the newest that each id has committed.

    `sees_groups`: this user may see the topic of consumer groups. The marker is the last that a writer puts into a
    transaction, as an offset of a group; so one without such a partition was never prepared.
    """
    return {
        name: _waiting(description, epochs.get(name), sees_groups=sees_groups)
        for name, description in described.items()
        if isinstance(description, Description) and description.state == "Ongoing"
    }


def _waiting(description: Description, after_epoch: int | None, *, sees_groups: bool) -> Waiting:
    partitions = sorted(f"{topic}/{number}" for topic, number in description.partitions if topic != GROUPS_TOPIC)
    named = ", ".join(partitions[:_NAMED])
    more = f" and {len(partitions) - _NAMED} more partitions" if len(partitions) > _NAMED else ""
    has_offsets = any(topic == GROUPS_TOPIC for topic, _ in description.partitions)
    return Waiting(
        f"readers of {named}{more} with isolation.level=read_committed"
        if partitions
        else "readers of its partitions with isolation.level=read_committed",
        time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((description.start_time_ms + description.timeout_ms) / 1000)),
        may_be_decided=has_offsets or not sees_groups,
        after_epoch=after_epoch,
    )
