"""The states of a service as the user says them: each with its store, some with a changelog besides. Opens nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpc.coordinator.service.functions import KeyedState
from tpc.coordinator.service.routes import LoopWriting
from tpc.coordinator.service.sink_rows import changes_of
from tpc.coordinator.service.state.lost_stores import LoggedState
from tpc.coordinator.service.state.sink import StateSink
from tpc.errors import ConfigurationError
from tpc.sink import Sink

if TYPE_CHECKING:
    from tpc.changelog import Changelog


class KeptStates:
    """In the order in which they were said. `logged`: those with a changelog; `unlogged`: the stores of others."""

    def __init__(self) -> None:
        self.states: list[KeyedState] = []
        self.logged: list[tuple[KeyedState, LoggedState]] = []
        self.unlogged: list[StateSink] = []
        self._stores: list[Sink] = []
        self._changelogs: list[Sink] = []

    def add(self, sink: StateSink, state: KeyedState, changelog: Changelog | None) -> None:
        """One more. Raises `ConfigurationError` for a changelog that another state has."""
        self.states.append(state)
        self._stores.append(sink)
        if changelog is None:
            self.unlogged.append(sink)
            return
        if any(logged.changelog.target == changelog.target for _, logged in self.logged):
            raise ConfigurationError(
                f"{changelog.target} is the changelog of two states",
                sink=sink.name,
                remedy="give each state a topic of its own: its keys are all that compaction looks at.",
            )
        self._changelogs.append(changelog.sink(sink.name))
        self.logged.append((state, LoggedState(sink, changelog, self._changelogs[-1].name)))

    @property
    def names(self) -> set[str]:
        """Of the sinks."""
        return {sink.name for sink in (*self._stores, *self._changelogs)}

    def writings(self) -> list[LoopWriting]:
        """One for each store, then one for each changelog."""
        return [changes_of(sink) for sink in (*self._stores, *self._changelogs)]
