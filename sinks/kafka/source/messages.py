"""Messages of one partition as the events of a cut, each with the offset at which it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tpc.sinks.kafka.source.partitions import Partition
from tpc.source import Origin, Part, decoded

if TYPE_CHECKING:
    from confluent_kafka import Message


def part_of(
    partition: Partition, came: Sequence[Message], decode: Callable[[Message], Any] | None, *, is_ended: bool
) -> Part:
    """The messages that have come of `partition`, or what `decode` makes of each."""
    topic, number = partition

    def origin(index: int) -> Origin:
        message = came[index]
        where = f"topic {topic}, partition {number}, offset {message.offset()}"
        return Origin(where, _bytes(message.key()), _bytes(message.value()))

    events, refused = (came, {}) if decode is None else decoded(came, decode)
    return Part(
        f"{topic}-{number}",
        events,
        is_ended,
        refused,
        origin,
        lambda: part_of(partition, came, decode, is_ended=is_ended),
    )


def _bytes(raw: str | bytes | None) -> bytes | None:
    return raw.encode() if isinstance(raw, str) else raw
