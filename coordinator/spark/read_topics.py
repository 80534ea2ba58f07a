"""The topics of a Spark query's Kafka sources: asked at its start, and beside each epoch that reads of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.coordinator.kernel.wanted_inputs import WantedInputs, has_begun
from tpc.coordinator.spark.kafka_topics import SparkTopics
from tpc.coordinator.spark.passes.inputs import in_recorded_order
from tpc.coordinator.spark.passes.routes import Writing
from tpc.coordinator.spark.source_descriptions import readers, relations
from tpc.coordinator.spark.source_logs import by_folder
from tpc.coordinator.spark.topic_check import TopicCheck
from tpc.errors import TransientError
from tpc.history import History
from tpc.manifest import EpochInput
from tpc.source_options import KAFKA
from tpc.source_records import Inputs, sources_of
from tpc.source_topics import check_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tpc.coordinator.kernel.job import Preparation


class ReadTopics:
    """Of the sources of `wanted`, which are those of the plan `frame`."""

    def __init__(self, wanted: WantedInputs, frame: DataFrame) -> None:
        self._wanted = wanted
        nodes = relations(frame)
        self._folders = readers(nodes)
        sources = sources_of(wanted.inputs)
        self._topics = {
            n: SparkTopics(nodes[n], frame.sparkSession) for n, one in enumerate(sources) if one.kind == KAFKA
        }

    def look(self, history: History) -> None:
        """Ask which topics there are, and compare them with those on record and where the log stands.

        What is new is taken into what goes on record. Raises `StateLostError`, and `TransientError` where no broker
        answers.
        """
        last = None if history.last_intent is None else history.manifests.get(history.last_intent)
        ends = {} if last is None else by_folder(last.epoch_input.end, self._folders)
        sources = sources_of(self._wanted.with_known_ids(history))
        try:
            for number, topics in self._topics.items():
                new = check_topics(sources[number], ends.get(self._folders[number]), topics.found())
                self._wanted.found_ids[number] = new
        finally:
            self.close()  # a start may go no further

    def check_of(self, epoch_input: EpochInput, history: History) -> TopicCheck | None:
        """The question that is asked while the epoch of `epoch_input` runs; None where it reads no topic."""
        starts, ends = (by_folder(lines, self._folders) for lines in (epoch_input.start, epoch_input.end))
        read = {
            number: ends[folder]
            for number in self._topics
            if (folder := self._folders[number]) in ends and ends[folder] != starts.get(folder)
        }
        return TopicCheck(self._topics, read, self._wanted, history) if read else None

    def close(self) -> None:
        """Let go of the connections."""
        for topics in self._topics.values():
            topics.close()


@contextmanager
def sources_asked(ready: Preparation) -> Iterator[None]:
    """Around the takeover of a start: before it the sources are asked, since what they answer goes on record with it.

    Where no broker answers, what is decided is finished all the same, and the `TransientError` is raised then: nothing
    is read.
    """
    unanswered: TransientError | None = None
    with ready.coordinator.engine.annotate_errors():
        try:
            ready.ask_sources()
        except TransientError as error:
            unanswered = error
    yield
    if unanswered is not None:
        with ready.coordinator.engine.annotate_errors():
            raise unanswered


def planned(writings: Sequence[Writing], coordinator: Coordinator) -> tuple[list[Writing], Inputs]:
    """`writings` in the order on record, and what they read. One write needs no question to the log."""
    recorded = None
    if len(writings) > 1 and has_begun(history := coordinator.read(), coordinator.runtime):
        recorded = history.inputs
    return in_recorded_order(writings, recorded, str(coordinator.pipeline))
