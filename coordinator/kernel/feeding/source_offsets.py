"""Where sources stand, as manifests hold it: a JSON text per source, and which of these are Kafka's."""

from __future__ import annotations

import json
from typing import Any


def kafka_offsets(sources: tuple[str, ...]) -> dict[str, dict[int, int]]:
    """Topic -> partition -> next offset, of those sources that are Kafka's."""
    merged: dict[str, dict[int, int]] = {}
    for text in sources:
        for topic, partitions in (kafka_source(text) or {}).items():
            merged.setdefault(topic, {}).update(partitions)
    return merged


def kafka_source(text: str) -> dict[str, dict[int, int]] | None:
    """Topic -> partition -> next offset, if `text` is an offset of Kafka's source: nothing else has that form."""
    try:
        value = json.loads(text)
    except ValueError:
        return None  # "-": a source that has no offset yet
    if not isinstance(value, dict) or not all(map(_are_partitions, value.values())):
        return None
    return {topic: {int(p): offset for p, offset in partitions.items()} for topic, partitions in value.items()}


def _are_partitions(value: Any) -> bool:
    return isinstance(value, dict) and all(p.isdecimal() and type(offset) is int for p, offset in value.items())
