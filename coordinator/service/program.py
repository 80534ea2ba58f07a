"""What a service computes, as plain data: checked when it is about to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tpc.coordinator.service.dead_letters import DeadLetters
from tpc.coordinator.service.firing import Pass, Timed, passes_of
from tpc.coordinator.service.functions import Function, Input, KeyedState
from tpc.coordinator.service.peer_shards import PeerShards
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.state.due import CLOCK, EVENT_TIME
from tpc.coordinator.service.state.lost_stores import LoggedState
from tpc.coordinator.service.state.sink import StateSink
from tpc.coordinator.service.topic_partitions import TopicPartitions
from tpc.errors import ConfigurationError


@dataclass(frozen=True)
class Program:
    """Sources, functions, states, and where rows go. Raises `ConfigurationError` where there is nothing to do.

    The first writings are the user's, the last of them that of dead letters; one for each state follows, in their
    order, then one for each changelog of a state: `changelogs` says of which.
    """

    inputs: Sequence[Input]
    functions: Sequence[Function]
    states: Sequence[KeyedState]
    writings: Sequence[ServiceWriting]
    offsets_sink: str | None
    unrouted_is_error: bool
    peer_shards: PeerShards | None = None
    """The other shards, or the shards that one without must not meet."""
    topic_partitions: TopicPartitions | None = None
    """Of a shard that keeps states: how many partitions its topics have."""
    changelogs: Sequence[tuple[KeyedState, LoggedState]] = ()
    without_changelog: Sequence[StateSink] = ()
    """The stores of the states that have no changelog."""
    retired: frozenset[str] = frozenset()
    """Sources of before that are read no more."""
    dead_letters: DeadLetters | None = None
    """The writing after those that functions make rows for is theirs."""
    timed: Sequence[Timed] = ()
    """Those of the states that are timers, or have an `on_expiry`."""

    @cached_property
    def passes(self) -> Sequence[Pass]:
        """The functions in whose pass they fire."""
        return passes_of(self.functions, self.timed)

    @property
    def reads_clock(self) -> bool:
        """Whether its epochs need the time of the clock, also without events that tell a time."""
        return any(each.by == CLOCK for each in self.timed)

    @property
    def made_by_functions(self) -> Sequence[ServiceWriting]:
        """The writings that functions make rows for."""
        return self.writings[: self.first_state_number - (self.dead_letters is not None)]

    @property
    def letters_number(self) -> int:
        """The number of the writing of dead letters, where there are some: the one after the functions'."""
        return len(self.made_by_functions)

    @property
    def first_state_number(self) -> int:
        """The number of the writing of the first state; one for each state follows, then one for each changelog."""
        return len(self.writings) - len(self.states) - len(self.changelogs)

    def __post_init__(self) -> None:
        if not self.inputs or not self.functions:
            raise ConfigurationError("the service reads nothing", remedy="@service.each(service.read(source))")
        taken = {each.name for function in self.functions for each in function.inputs}
        if idle := [each.name for each in self.inputs if each.name not in taken]:
            raise ConfigurationError(
                f"source {idle[0]!r} is read and no function takes its events: all of them would be dropped",
                remedy="say @service.each(...) of it, or read it not. Where another program is to take them later, and "
                f"an earlier one has read it: service.retire({idle[0]!r}).",
            )
        if both := sorted(self.retired & {each.name for each in self.inputs}):
            raise ConfigurationError(f"source {both[0]!r} is read and retired", remedy="say one of the two.")
        if all(each.time is None for each in self.inputs):
            for state in self.states:
                if state.ttl_ms is not None:
                    raise ConfigurationError(
                        f"the state {state.name} has a time to live, and no event has a time",
                        remedy="say where it stands, service.read(source, time=lambda event: milliseconds since 1970), "
                        "or give the state no ttl.",
                    )
            for each in self.timed:
                if each.by == EVENT_TIME:
                    raise ConfigurationError(
                        f"timer {each.name!r} fires by event time, and no event has a time",
                        remedy="say where it stands, service.read(source, time=lambda event: milliseconds since 1970), "
                        'or let it fire by="clock".',
                    )
        for each in self.timed:
            each.require_function()
        _ = self.passes  # raises where it is not clear in which of them a timer fires
        for writing in self.writings:
            if not writing.routes:
                raise ConfigurationError(f"rows {writing.name!r} go to no sink", remedy="service.write(...).to(sink)")
