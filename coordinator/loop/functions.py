"""The user's functions, and how they are run over the events of an epoch: each after the other, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tpc.coordinator.loop.emitted import Emitted
from tpc.json import JSONObject
from tpc.source import Source

EventTime = Callable[[Any], int]
"""The time of an event, in milliseconds since 1970."""
AT_ONCE = 1024
"""Events that a function gets one by one until it is looked whether their rows are many."""


class KeyedState(Protocol):
    """What the loop asks of a state (`tpc.coordinator.loop.state.State`); what functions ask is a mapping's."""

    name: str
    ttl_ms: int | None
    event_ms: int | None

    def restore(self, *, before: int | None = None) -> None:
        """Read it from its store: as it is, or as it was before an epoch that is decided and not complete."""

    def begin(self, epoch: int, watermark_ms: int | None = None) -> None:
        """Begin an epoch."""

    def changes(self) -> Any:
        """The cut: what the epoch has changed, as an Arrow batch."""

    def logged(self, position: JSONObject | None) -> Sequence[Any]:
        """After the cut: the batches for its changelog, which stands at `position`."""

    def abandon(self) -> None:
        """The epoch is aborted."""


@dataclass(frozen=True)
class Input:
    """A source of a service, as `service.read` returns it. `time` tells the time of its events."""

    source: Source
    time: EventTime | None

    @property
    def name(self) -> str:
        """The source's name."""
        return self.source.name


@dataclass(frozen=True)
class Function:
    """`call` gets the events of `inputs`, one by one or (`is_batch`) all of an epoch; without inputs, `out` alone."""

    call: Callable[..., Any]
    inputs: tuple[Input, ...] = ()
    is_batch: bool = False


def run_functions(
    functions: Sequence[Function],
    inputs: Sequence[Input],
    events: Mapping[str, Sequence[Any]],
    states: Sequence[KeyedState],
    out: Emitted,
) -> None:
    """Run all of them over an epoch's `events`, by the name of their source; where there are none, nothing is run.

    States with a time to live are told the time of the event at hand, or the newest of those at hand.
    """
    if not any(events.values()):
        return
    expiring = [state for state in states if state.ttl_ms is not None]
    for function in functions:
        if not function.inputs:
            _tell(expiring, inputs, events)
            function.call(out)
        for source in function.inputs:
            came = events[source.name]
            if function.is_batch:
                if came:
                    _tell(expiring, [source], events)
                    function.call(came, out)
            elif source.time is None or not expiring:
                _tell(expiring, [source], events)
                call = function.call
                for first in range(0, len(came), AT_ONCE):
                    for event in came[first : first + AT_ONCE]:
                        call(event, out)
                    out.settle()
            else:
                for first in range(0, len(came), AT_ONCE):
                    _timed(function.call, came[first : first + AT_ONCE], source.time, expiring, out)
                    out.settle()
        for state in expiring:
            state.event_ms = None


def _tell(states: Sequence[KeyedState], inputs: Sequence[Input], events: Mapping[str, Sequence[Any]]) -> None:
    """The newest event of these inputs; none where none of them has a time, or an event."""
    if states:
        newest = [max(map(each.time, events[each.name])) for each in inputs if each.time and events[each.name]]
        for state in states:
            state.event_ms = max(newest, default=None)


def _timed(
    call: Callable[..., Any], came: Sequence[Any], time: EventTime, states: Sequence[KeyedState], out: Emitted
) -> None:
    """One by one, the states being told the time of each."""
    for event in came:
        at = time(event)
        for state in states:
            state.event_ms = at
        call(event, out)
