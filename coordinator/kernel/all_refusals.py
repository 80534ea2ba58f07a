"""Every refusal of a start that can be found, for `tpc check`: a start itself stops at the first.

Each question of `preflight` is asked of one participant at a time: a sink that refuses says nothing about another. What
rests on an answer that is missing is not asked. Without the log no sink is asked: its check may make a target again
that is only not mounted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from tpc.consistency import (
    check_bound_sinks,
    check_empty_log,
    check_lost_commits,
    check_missing_targets,
    check_moved_sinks,
    check_owners,
    check_removed_sinks,
    holds_epochs,
)
from tpc.coordinator.kernel.coordinator import Coordinator
from tpc.errors import HistoryMismatchError, TpcError
from tpc.history import History
from tpc.schemas import Columns, check_schemas
from tpc.sink import CheckContext

logger = logging.getLogger(__name__)
READ_ATTEMPTS = 5


class Refusals:
    """What was refused, in the order in which it was asked; the same refusal once."""

    def __init__(self) -> None:
        self.found: list[TpcError] = []

    def add(self, error: TpcError) -> None:
        """Keep it, unless the same was said before."""
        said = {(type(one), one.what, one.sink) for one in self.found}
        if (type(error), error.what, error.sink) not in said:
            self.found.append(error)

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Around one question: what it refuses is kept and not raised."""
        try:
            yield
        except TpcError as error:
            self.add(error)


def ask_all(
    coordinator: Coordinator,
    contexts: Mapping[str, CheckContext],
    schemas: Mapping[str, Columns],
    refusals: Refusals,
) -> None:
    """Ask log and sinks everything that `Coordinator.check` asks, and keep all that they refuse."""
    survey = _Survey(coordinator, refusals)
    if (history := survey.history()) is None:
        return
    absent = survey.absent(history)
    survey.ask_rows(history, schemas)
    able = survey.able({name: context for name, context in contexts.items() if name not in absent})
    survey.compare(history, able)


class _Survey:
    """The questions to one coordinator's log and sinks."""

    def __init__(self, coordinator: Coordinator, refusals: Refusals) -> None:
        self._coordinator = coordinator
        self._participants = coordinator.participants
        self._refusals = refusals

    @contextmanager
    def _gathered(self, sink: str | None = None) -> Iterator[None]:
        with self._refusals.gathered(), self._coordinator.engine.annotate_errors():
            try:
                yield
            except TpcError as error:
                raise error.located(pipeline=str(self._coordinator.pipeline), sink=sink) from error.__cause__

    def history(self) -> History | None:
        """The log's; None where it is refused."""
        with self._gathered():
            return self._coordinator.read()
        return None

    def absent(self, history: History) -> set[str]:
        """The sinks whose targets hold epochs by the log, and are not there or do not say so."""
        refused = {name for name in self._participants.sinks if holds_epochs(history, name)}
        for name in sorted(refused):
            with self._gathered(name):
                check_missing_targets(history, self._participants.missing([name]))
                refused.remove(name)
        return refused

    def ask_rows(self, history: History, schemas: Mapping[str, Columns]) -> None:
        """Are the sources and the columns those on record?"""
        coordinator = self._coordinator
        with self._gathered():
            coordinator.runtime.check_identity(history)
        if coordinator.inputs is not None:
            for change in coordinator.inputs.changes(history, coordinator.runtime):
                with self._gathered():
                    raise change
        for sink in sorted(schemas):
            with self._gathered(sink):
                check_schemas(history.schemas, {sink: schemas[sink]}, str(history.pipeline))

    def able(self, contexts: Mapping[str, CheckContext]) -> list[str]:
        """The sinks that can take part and say which system they are, in their order."""
        refused = self._participants.refusals(contexts)
        for name, error in refused.items():
            with self._gathered(name):
                raise error
        return [name for name in contexts if name not in refused]

    def compare(self, history: History, able: Collection[str]) -> None:
        """Do log and sinks agree? Of a sink that is not `able` what the log says is taken for right."""
        identities: dict[str, str] = {}
        for name in able:
            with self._gathered(name):
                identities |= self._participants.identities([name])
        self._ask_left_out(history, identities)
        for name in identities:
            with self._gathered(name):
                self._ask_sink_at_rest(history, name, identities)

    def _ask_left_out(self, history: History, identities: Mapping[str, str]) -> None:
        pending = {} if history.pending is None else history.pending.sinks
        recorded = {**history.sinks, **{name: part.identity for name, part in pending.items()}}
        told = {name: recorded.get(name, "") for name in self._participants.sinks} | dict(identities)
        for name in pending:
            with self._gathered(name):
                others = {other: part.identity for other, part in pending.items() if other != name}
                check_bound_sinks(history, {**told, **others})
        for name in sorted(history.sinks.keys() - told.keys()):
            with self._gathered(name):
                check_removed_sinks(history, {**told, **{o: i for o, i in history.sinks.items() if o != name}})

    def _ask_sink_at_rest(self, history: History, name: str, identities: Mapping[str, str]) -> None:
        """Ask it again while the log goes on: beside a running pipeline the sink is asked later than the log was read.

        What never comes to rest is not compared.
        """
        for _ in range(READ_ATTEMPTS):
            try:
                return self._ask_sink(history, name, identities)
            except HistoryMismatchError:
                now = self._coordinator.read()
                if now.next_slot == history.next_slot:
                    raise
                history = now
        logger.warning("sink %s was not compared with the log: epochs go on meanwhile", name)
        return None

    def _ask_sink(self, history: History, name: str, identities: Mapping[str, str]) -> None:
        """Does this sink report what the log says? A damaged end is not judged here: that takes every sink."""
        asked = self._participants
        markers, owners = asked.newest_markers(history, [name]), asked.owners([name])
        if history.pipeline is None:
            check_empty_log(self._coordinator.pipeline, markers, owners, asked.in_doubt([name]))
            return
        if not history.damaged:
            check_moved_sinks(history, markers, identities)
            asked.check_markers(history, markers)
            if history.last_epoch_of(name) is not None:
                check_lost_commits(history, asked.in_doubt([name])[name])
        check_owners(history, owners)
