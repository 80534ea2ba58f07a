"""What a start reads, as it is compared with the record, and as it goes on record with the start's generation."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tpc.coordinator.spark.query_log import SparkLog
from tpc.errors import SourcesChangedError
from tpc.history import History
from tpc.json import JSONObject
from tpc.schemas import Columns
from tpc.source import Source
from tpc.source_changes import named_changes, planned_changes
from tpc.source_records import InputRecord, Inputs, SourceRecord, inputs_to_json, sources_of, with_ids

logger = logging.getLogger(__name__)


@dataclass
class WantedInputs:
    """`by_name`: positions are found by the sources' names, as a service's are, and not by their order in a plan."""

    inputs: Inputs
    by_name: bool = False
    found_ids: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """By the number of a source, ids that its system has told this start and that were not on record."""

    def check(self, history: History, spark: SparkLog) -> None:
        """Raise `SourcesChangedError` where they are not those on record. Nothing is changed."""
        for error in self.changes(history, spark):
            raise error

    def changes(self, history: History, spark: SparkLog) -> Iterator[SourcesChangedError]:
        """Every difference to the record; of those that may be accepted too."""
        if history.inputs is None or not has_begun(history, spark):
            return iter(())
        if self.by_name:
            return named_changes(history.inputs, self.inputs, str(history.pipeline))
        replays = self.replayed(history, spark)
        return planned_changes(history.inputs, self.inputs, str(history.pipeline), replays=replays)

    def replayed(self, history: History, spark: SparkLog) -> int | None:
        """The decided epoch that a start reads again: one that Spark has not committed, or that is not complete."""
        last = history.last_intent
        if history.pending is not None:
            return history.pending.epoch
        is_behind = not self.by_name and last is not None and max(spark.batches("commits"), default=-1) < last
        return last if is_behind else None

    def recorded(self, history: History, spark: SparkLog) -> Inputs:
        """What goes on record with the next term: these, with the ids that are known of them."""
        known = history.inputs if has_begun(history, spark) else ()
        if known is None:
            told = "; ".join(map(str, sources_of(self.inputs)))
            logger.warning("the log does not say which sources have been read: those of this start are taken: %s", told)
        if self.by_name:
            names = {each.name for each in self.inputs}
            return (*self.inputs, *(each for each in known or () if each.name not in names))
        return with_ids(with_ids(self.inputs, ids_of(known or ())), self.found_ids)

    def with_known_ids(self, history: History) -> Inputs:
        """These, with the ids on record."""
        return with_ids(self.inputs, ids_of(history.inputs or ()))


def ids_of(inputs: Inputs) -> dict[int, Mapping[str, str]]:
    """The ids on record, by the number of the source."""
    return {number: source.ids for number, source in enumerate(sources_of(inputs)) if source.ids}


def has_begun(history: History, spark: SparkLog) -> bool:
    """Whether a position of any source is kept: of what has read nothing, everything may change."""
    return history.last_intent is not None or bool(spark.batches("offsets")) or bool(spark.files.entries("sources"))


def named_inputs(sources: Iterable[Source]) -> Inputs:
    """What a service reads, each source by its name."""
    return tuple(InputRecord(one.name, (), (SourceRecord(one.kind, one.place),)) for one in sources)


def rows_claimed(
    history: History, spark: SparkLog, inputs: WantedInputs | None, schemas: Mapping[str, Columns] | None
) -> JSONObject:
    """What the record of a term says of what is read and written; nothing where nothing will be: the record stays."""
    claimed: JSONObject = {} if schemas is None else {"schemas": schemas}
    return claimed if inputs is None else {**claimed, "sources": inputs_to_json(inputs.recorded(history, spark))}
