"""Are the topics of a Kafka source the ones that it has read? Of a Spark query; plain data, no cluster.

A topic that was deleted and created again has the name of the old one and none of its messages: no position counts in
it. Its id tells, where brokers tell one. What is not there proves nothing by itself, but a position in it is lost.
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
    """What a cluster tells of a topic; `identity` is empty where it tells none."""

    identity: str
    partitions: int


def check_topics(source: SourceRecord, position: str | None, found: Mapping[str, Topic]) -> dict[str, str]:
    """The ids of topics of `source` of which none are on record, by name.

    `found` are its topics of today, `position` is where it stands: `{"topic": {"0": 5}}`, or None. Raises
    `StateLostError` for a topic on record or in the position that is missing, was created again, or has fewer
    partitions than were read.
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
    """How many partitions of each topic a position of Kafka's knows; none of another text ("-": nothing yet)."""
    try:
        offsets = json.loads(position or "-")
        return {topic: max(map(int, partitions), default=-1) + 1 for topic, partitions in offsets.items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def topics_left_out(before: SourceRecord, after: SourceRecord) -> list[str]:
    """The topics that `before` has read, as far as their ids are on record, and that the place of `after` leaves out.

    A place is `topics a, b`, `partitions {"a": [0]}` or `pattern a.*`. A pattern is Java's: one that Python does not
    know leaves out nothing, and the start asks the cluster.
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
        remedy="nothing of a new one is decided: positions count what was in the old one. Let the source read that one "
        f"again, if it is still there. Else write the new one in a pipeline of another name, or {START_ANEW}. Only if "
        "it is a copy in which the same positions name the same messages, as that of a linked cluster, say so: "
        "`tpc accept-sources MODULE:PIPELINE --continues TOPIC=ID --reason ...`.",
    )
