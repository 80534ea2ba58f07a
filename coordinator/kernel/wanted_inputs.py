"""What a start reads, as it is compared with the record, and as it goes on record with the start's generation."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tpc.coordinator.kernel.runtime import Runtime
from tpc.errors import SourcesChangedError
from tpc.history import History
from tpc.json import JSONObject
from tpc.schemas import Columns
from tpc.source_changes import named_changes, planned_changes
from tpc.source_records import Inputs, inputs_to_json, sources_of, with_ids

logger = logging.getLogger(__name__)


@dataclass
class WantedInputs:
    """`inputs` are in the order in which the runtime numbers them, or finds them by their names."""

    inputs: Inputs
    found_ids: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """By the number of a source, ids that its system has told this start and that were not on record."""

    def check(self, history: History, runtime: Runtime) -> None:
        """Raise `SourcesChangedError` where they are not those on record. Nothing is changed."""
        for error in self.changes(history, runtime):
            raise error

    def changes(self, history: History, runtime: Runtime) -> Iterator[SourcesChangedError]:
        """Every difference to the record; of those that may be accepted too."""
        if history.inputs is None or not has_begun(history, runtime):
            return iter(())
        if runtime.finds_sources_by_name:
            return named_changes(history.inputs, self.inputs, str(history.pipeline))
        replays = self.replayed(history, runtime)
        return planned_changes(history.inputs, self.inputs, str(history.pipeline), replays=replays)

    def replayed(self, history: History, runtime: Runtime) -> int | None:
        """The decided epoch that a start reads again: one that is not complete, or that the runtime replays."""
        return runtime.replayed(history) if history.pending is None else history.pending.epoch

    def recorded(self, history: History, runtime: Runtime) -> Inputs:
        """What goes on record with the next term: these, with the ids that are known of them."""
        known = history.inputs if has_begun(history, runtime) else ()
        if known is None:
            told = "; ".join(map(str, sources_of(self.inputs)))
            logger.warning("the log does not say which sources have been read: those of this start are taken: %s", told)
        if runtime.finds_sources_by_name:
            names = {each.name for each in self.inputs}
            return (*self.inputs, *(each for each in known or () if each.name not in names))
        return with_ids(with_ids(self.inputs, ids_of(known or ())), self.found_ids)

    def with_known_ids(self, history: History) -> Inputs:
        """These, with the ids on record."""
        return with_ids(self.inputs, ids_of(history.inputs or ()))


def ids_of(inputs: Inputs) -> dict[int, Mapping[str, str]]:
    """The ids on record, by the number of the source."""
    return {number: source.ids for number, source in enumerate(sources_of(inputs)) if source.ids}


def has_begun(history: History, runtime: Runtime) -> bool:
    """Whether a position of any source is kept: of what has read nothing, everything may change."""
    return history.last_intent is not None or runtime.has_begun()


def rows_claimed(
    history: History, runtime: Runtime, inputs: WantedInputs | None, schemas: Mapping[str, Columns] | None
) -> JSONObject:
    """What the record of a term says of what is read and written; nothing where nothing will be: the record stays."""
    claimed: JSONObject = {} if schemas is None else {"schemas": schemas}
    return claimed if inputs is None else {**claimed, "sources": inputs_to_json(inputs.recorded(history, runtime))}
