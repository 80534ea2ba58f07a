"""Are the topics of a Kafka source the ones that it has read? Plain data, no cluster.

A topic that was deleted and created again has the name of the old one and none of its messages: a position in the old
topic means nothing in the new one. The topic's id shows that, where brokers report one. A missing topic proves nothing
by itself, but a position in it is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tpc.errors import START_ANEW, StateLostError
from tpc.source_records import SourceRecord


@dataclass(frozen=True)
class Topic:
    """What a cluster reports about a topic; `identity` is empty if it reports none."""

    identity: str
    partitions: int


def check_topics(source: SourceRecord, position: str | None, found: Mapping[str, Topic]) -> dict[str, str]:
    """The ids of those topics of `source` that have no id on record, by name.

    `found` are its topics of today, `position` is its position: `{"topic": {"0": 5}}`, or None. Raises `StateLostError`
    if a topic on record or in the position is missing, was created again, or has fewer partitions than were read.
    """
    read = partitions_read(position)
    for name in sorted({*source.ids, *read}):
        topic = found.get(name)
        if topic is None:
            raise _lost(source, name, "is not there, or not read any more")
        known = source.ids.get(name, topic.identity)
        if topic.identity and known != topic.identity:
            raise _lost(
                source,
                name,
                f"is not the one that was read: that was {known}, and this is {topic.identity}. It was deleted and "
                "created again, or it is another cluster's",
            )
        if topic.partitions < read.get(name, 0):
            raise _lost(source, name, f"has {topic.partitions} partitions, and {read[name]} of it were read")
    return {name: topic.identity for name, topic in found.items() if topic.identity and name not in source.ids}


def partitions_read(position: str | None) -> dict[str, int]:
    """How many partitions of each topic a Kafka position holds; empty for any other text ("-": nothing read yet)."""
    try:
        offsets = json.loads(position or "-")
        return {topic: max(map(int, partitions), default=-1) + 1 for topic, partitions in offsets.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def topics_left_out(before: SourceRecord, after: SourceRecord) -> list[str]:
    """The topics that `before` has read, as far as their ids are on record, and that the place of `after` leaves out.

    A place is `topics a, b`, `partitions {"a": [0]}` or `pattern a.*`. A pattern is in Java's syntax. If Python cannot
    read it, the answer is empty, and the start asks the cluster.
    """
    how, _, named = after.place.partition(" ")
    if how == "pattern":
        try:
            pattern = re.compile(named)
        except re.error:
            return []
        return sorted(name for name in before.ids if not pattern.fullmatch(name))
    taken = json.loads(named) if how == "partitions" else named.split(", ")
    return sorted(before.ids.keys() - set(taken))


def _lost(source: SourceRecord, topic: str, what: str) -> StateLostError:
    return StateLostError(
        f"topic {topic!r} of the source {source} {what}",
        remedy="nothing of a new one is decided: the positions are those of the old one. Let the source read that one "
        f"again, if it is still there. Else write the new one in a pipeline of another name, or {START_ANEW}. Only if "
        "it is a copy in which the same positions name the same messages, as that of a linked cluster, accept it: "
        "`tpc accept-sources MODULE:PIPELINE --continues TOPIC=ID --reason ...`.",
    )
