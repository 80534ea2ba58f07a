"""Whether the topics that an epoch of a Spark query reads are those in which its positions count."""

from __future__ import annotations

from collections.abc import Mapping

from tpc.coordinator.kernel.wanted_inputs import WantedInputs
from tpc.coordinator.spark.kafka_topics import SparkTopics
from tpc.history import History
from tpc.source_records import sources_of
from tpc.source_topics import check_topics, partitions_read


class TopicCheck:
    """Of one epoch, which reads up to `ends` (lines of Spark's offsets, by the number of their source)."""

    def __init__(
        self, topics: Mapping[int, SparkTopics], ends: Mapping[int, str], wanted: WantedInputs, history: History
    ) -> None:
        self._topics = topics
        self._ends = ends
        self._wanted = wanted
        self._history = history
        self.new_ids: dict[int, Mapping[str, str]] = {}
        """The ids of topics that no earlier epoch has read, once `confirm` has returned."""

    def confirm(self) -> None:
        """Ask the brokers. Raises `StateLostError` for another topic of a name, `TransientError` without an answer."""
        sources = sources_of(self._wanted.with_known_ids(self._history))
        for number, end in self._ends.items():
            found = self._topics[number].described({*partitions_read(end), *sources[number].ids})
            if ids := check_topics(sources[number], end, found):
                self.new_ids[number] = ids
