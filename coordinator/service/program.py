"""What a service computes, as plain data: checked when it is about to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpc.coordinator.service.dead_letters import DeadLetters
from tpc.coordinator.service.functions import Function, Input, KeyedState
from tpc.coordinator.service.peer_shards import PeerShards
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.state.lost_stores import LoggedState
from tpc.coordinator.service.state.sink import StateSink
from tpc.coordinator.service.topic_partitions import TopicPartitions
from tpc.errors import ConfigurationError


@dataclass(frozen=True)
class Program:
    """Sources, functions, states, and where rows go. Raises `ConfigurationError` where there is nothing to do.

    The first writings are the user's, the last of them that of dead letters; one for each state follows, in their
    order, then one for each changelog of a state: `logged` says of which.
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
    logged: Sequence[tuple[KeyedState, LoggedState]] = ()
    unlogged: Sequence[StateSink] = ()
    """The stores of the states that have no changelog."""
    retired: frozenset[str] = frozenset()
    """Sources of before that are read no more."""
    dead_letters: DeadLetters | None = None
    """The writing after those that functions make rows for is theirs."""

    @property
    def made_by_functions(self) -> Sequence[ServiceWriting]:
        """The writings that functions make rows for."""
        others = len(self.states) + len(self.logged) + (self.dead_letters is not None)
        return self.writings[: len(self.writings) - others]

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
        for writing in self.writings:
            if not writing.routes:
                raise ConfigurationError(f"rows {writing.name!r} go to no sink", remedy="service.write(...).to(sink)")
