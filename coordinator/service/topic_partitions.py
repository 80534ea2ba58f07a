"""The partitions of a shard's topics, where it keeps states: as many in each topic, and as many as ever.

A key's partition follows from how many there are. In a service of one process nothing rests on it. Among shards it says
which of them meets a key: where two topics have other numbers, or one gets more, events of one key come to two shards,
and each has but a part of what is kept of it. No row is lost or doubled by that, and no result would show it; so it is
refused, before an event of a partition that is new has been given out. Topics of one name in two clusters are two:
each is told by its source too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tpc.errors import START_ANEW, ConfigurationError, CorruptionError, TransientError
from tpc.json import parse
from tpc.support.durable_files import in_words, make_directories, replace

FILE_NAME = "partitions.json"

SourceTopic = tuple[str, str]
"""The name of a source, and a topic of it."""


class TopicPartitions:
    """How many partitions each topic of each source of a shard has, noted in `directory`, where its states lie."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / FILE_NAME
        self._known: dict[SourceTopic, int] | None = None

    def check(self, found: Mapping[SourceTopic, int]) -> None:
        """As `look`, before events are given out; a topic that was not there before is noted."""
        known = self.look(found)
        if not found.keys() <= known.keys():
            noted = {**known, **found}
            try:
                make_directories(self._file.parent)
                replace(self._file, _text_of(noted).encode())
            except OSError as error:
                raise TransientError(f"{self._file} cannot be written: {in_words(error)}") from error
            self._known = noted  # not before it is durable: nothing would note it any more

    def look(self, found: Mapping[SourceTopic, int]) -> Mapping[SourceTopic, int]:
        """Raise `ConfigurationError` unless it is as it was, which is returned. Changes nothing."""
        if self._known is None:
            self._known = _counts_of(self._file) if self._file.exists() else {}
        changed = sorted(topic for topic, count in found.items() if self._known.get(topic, count) != count)
        if changed:
            [topic, *_] = changed
            raise ConfigurationError(
                f"topic {_in_words(topic)} has {found[topic]} partitions, and had {self._known[topic]} when this shard "
                "began",
                remedy="keys have other partitions now, and would miss what the shards keep of them: nothing was read "
                f"of the new ones. Read a new topic that has the partitions it needs, and {START_ANEW}.",
            )
        counted = {**self._known, **found}  # a topic that is read no more has put keys where they are, too
        if len(set(counted.values())) > 1:
            counts = ", ".join(f"{_in_words(topic)} has {count}" for topic, count in sorted(counted.items()))
            raise ConfigurationError(
                f"the topics of a service with shards and states have different numbers of partitions: {counts}",
                remedy="events of one key would come to different shards. Give the topics the same number of "
                "partitions; or read them in a service without shards, or without states.",
            )
        return self._known


def _text_of(counts: Mapping[SourceTopic, int]) -> str:
    """`{"source": {"topic": 5}}`."""
    by_source: dict[str, dict[str, int]] = {}
    for (source, topic), count in counts.items():
        by_source.setdefault(source, {})[topic] = count
    return json.dumps(by_source, sort_keys=True)


def _counts_of(file: Path) -> dict[SourceTopic, int]:
    try:
        by_source = parse(file.read_bytes())
        return {(source, topic): int(n) for source, topics in by_source.items() for topic, n in topics.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptionError(
            f"{file}, which notes how many partitions each topic had, cannot be read: {error}",
            remedy="put it back from a backup; or, if no topic was given partitions since the service began, remove "
            "it: the next start notes what there is.",
        ) from error


def _in_words(topic: SourceTopic) -> str:
    return f"{topic[1]!r} of source {topic[0]!r}"
