"""The user's functions, and how they are run over the events of an epoch: each after the other, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from typing import Any, Protocol

from tpc.coordinator.loop.cut_events import CutEvents, EventTime, Refusal
from tpc.coordinator.loop.emitted import Emitted
from tpc.coordinator.loop.refusals import error_of, error_of_many
from tpc.json import JSONObject
from tpc.source import Source
from tpc.user_code import is_refusal, name_of, require_done

AT_ONCE = 1024
"""Events that a function gets one by one until it is looked whether their rows are many."""


class Undoable(Protocol):
    """What changes with each event, and of which what one event has changed can be undone."""

    def begin_event(self) -> None:
        """What changes from here on is of one event, until `end_event`."""

    def check_event(self) -> None:
        """Raise `DataError` for what the event has left that cannot be kept."""

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what has changed since `begin_event`, or undo it."""


class KeyedState(Undoable, Protocol):
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

    @property
    def name(self) -> str:
        """What errors call it."""
        return f"function {name_of(self.call)}"

    def run(self, out: Emitted, *arguments: Any) -> None:
        """Call it. Raises `ConfigurationError` where its answer stands for work that is not done."""
        if (answer := self.call(*arguments, out)) is not None:
            require_done(answer, self.name)


class Guard:
    """Runs a function for one event so that what it has done for that event alone can be undone.

    That costs much for each event, so an epoch is first run without it. `refused` gets the events that were refused;
    where it is None the first one ends the epoch.
    """

    def __init__(self, states: Sequence[KeyedState], out: Emitted, refused: list[Refusal] | None) -> None:
        self._guarded: list[Undoable] = [out, *states]
        self._out = out
        self._refused = refused

    def run(self, function: Function, events: CutEvents, index: int) -> None:
        """For the event of this index. Raises what is no refusal of the event, with everything undone."""
        try:
            self._run(function, events[index])
        except Exception as error:
            if not is_refusal(error):
                raise
            refusal = Refusal(events.source, events.origin(index), function.name, error)
            if self._refused is None:
                raise error_of(refusal) from error
            self._refused.append(refusal)

    def run_many(self, function: Function, events: Sequence[CutEvents], *arguments: Any) -> None:
        """For all events at once. The rows that it makes are looked at, and errors name it."""
        self._out.begin_event()
        try:
            function.run(self._out, *arguments)
            self._out.check_event()
        except Exception as error:
            if not is_refusal(error):
                raise
            raise error_of_many(function.name, events, error) from error
        self._out.end_event(is_kept=True)

    def _run(self, function: Function, event: Any) -> None:
        is_kept = False
        for each in self._guarded:
            each.begin_event()
        try:
            function.run(self._out, event)
            for each in self._guarded:
                each.check_event()
            is_kept = True
        finally:
            for each in self._guarded:
                each.end_event(is_kept=is_kept)


def run_functions(
    functions: Sequence[Function],
    inputs: Sequence[Input],
    events: Mapping[str, CutEvents],
    states: Sequence[KeyedState],
    out: Emitted,
    guard: Guard | None = None,
) -> None:
    """Run all of them over an epoch's `events`, by the name of their source; where there are none, nothing is run.

    States with a time to live are told the time of the event at hand, or the newest of those at hand. Raises
    `DataError` with the position of an event that a function refuses.
    """
    if not any(events.values()):
        return
    expiring = [state for state in states if state.ttl_ms is not None]
    for function in functions:
        if not function.inputs:
            _tell(expiring, events.values())
            _run_many(function, [events[each.name] for each in inputs], guard, out)
        for source in function.inputs:
            came = events[source.name]
            if not function.is_batch:
                _run_each(function, came, expiring, guard, out)
            elif came:
                _tell(expiring, [came])
                _run_many(function, [came], guard, out, list(came))  # a copy: other functions get the same events
        for state in expiring:
            state.event_ms = None


def _tell(states: Sequence[KeyedState], events: Iterable[CutEvents]) -> None:
    """The newest event of these; none where none of them has a time, or an event."""
    if states:
        newest = [max(each.times) for each in events if each.times]
        for state in states:
            state.event_ms = max(newest, default=None)


def _run_many(
    function: Function, events: Sequence[CutEvents], guard: Guard | None, out: Emitted, *arguments: Any
) -> None:
    if guard is not None:
        guard.run_many(function, events, *arguments)
        return
    try:
        function.run(out, *arguments)
    except Exception as error:
        if out.unfit is error or not is_refusal(error):  # a row of before
            raise
        raise error_of_many(function.name, events, error) from error


def _run_each(
    function: Function, events: CutEvents, expiring: Sequence[KeyedState], guard: Guard | None, out: Emitted
) -> None:
    """One by one, the states being told the time of each."""
    timed = expiring if events.times is not None else ()
    for state in expiring:
        state.event_ms = None
    for first in range(0, len(events), AT_ONCE):
        times = events.times[first : first + AT_ONCE] if events.times is not None and timed else repeat(None)
        if guard is not None:
            for index, at in zip(range(first, min(first + AT_ONCE, len(events))), times):  # noqa: B905  endless times
                for state in timed:
                    state.event_ms = at
                guard.run(function, events, index)
        else:
            some = events[first : first + AT_ONCE]
            rest = iter(some)
            try:
                _run_some(function, rest, times, timed, out)
            except Exception as error:
                if out.unfit is error or not is_refusal(error):  # a row of an event before
                    raise
                index = first + len(some) - length_hint(rest) - 1
                raise error_of(Refusal(events.source, events.origin(index), function.name, error)) from error
        out.settle()


def _run_some(
    function: Function,
    events: Iterator[Any],
    times: Iterable[int | None],
    timed: Sequence[KeyedState],
    out: Emitted,
) -> None:
    call = function.call
    if not timed:
        for event in events:
            if (answer := call(event, out)) is not None:
                require_done(answer, function.name)
        return
    for event, at in zip(events, times):  # noqa: B905  events may be fewer than times without an end
        for state in timed:
            state.event_ms = at
        if (answer := call(event, out)) is not None:
            require_done(answer, function.name)
