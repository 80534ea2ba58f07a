"""How the user's functions are run over the events of an epoch: each after the other, in their order.

An event has the same time and is handled with the same watermark whether it is run with the others or guarded, so that
it alone can be undone. One that a function refuses has had its time: the watermark goes on by it as by any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import length_hint
from typing import Any, NamedTuple

from tpc.coordinator.service.cut_events import CutEvents, Refusal
from tpc.coordinator.service.emitted import Emitted
from tpc.coordinator.service.functions import Function, Input, KeyedState, Undoable
from tpc.coordinator.service.refusals import error_of, error_of_many
from tpc.coordinator.service.row_checks import RowChecks, RowRefusedError
from tpc.event_time import NO_EPOCH_TIME, EpochTime
from tpc.user_code import UnkeptValueError, is_refusal, is_unkept, require_done
from tpc.watermark import Watermark

AT_ONCE = 1024
"""Events that a function gets one by one until it is looked whether their rows are many."""


class Guard:
    """Runs a function for one event so that what it has done for that event alone can be undone.

    That costs much for each event, so an epoch is first run without it. `refused` gets the events that were refused;
    where it is None the first one ends the epoch. With `checks` an event is refused also where a sink does not take a
    row that was made of it.
    """

    def __init__(
        self,
        states: Sequence[KeyedState],
        out: Emitted,
        refused: list[Refusal] | None,
        checks: RowChecks | None = None,
    ) -> None:
        self._guarded: list[Undoable] = [out, *states]
        self._states = states
        self._out = out
        self._refused = refused
        self._checks = checks

    def run(self, function: Function, events: CutEvents, index: int) -> None:
        """For the event of this index. Raises what is no refusal of the event, with everything undone."""
        try:
            self._run(function, events[index])
        except RowRefusedError as refused:
            assert self._refused is not None
            origin, named = events.origin(index), f"sink {refused.sink}"
            self._refused.append(Refusal(events.source, origin, named, refused.error, refused.sink))
        except Exception as error:
            if not is_refusal(error):
                raise
            if is_unkept(error):
                self._require_kept_before()
            refusal = Refusal(events.source, events.origin(index), function.name, error)
            if self._refused is None:
                raise error_of(refusal) from error
            self._refused.append(refusal)

    def _require_kept_before(self) -> None:
        """Raise `DataError` for a value that cannot be kept and is not of the event at hand, which is undone.

        What a function of all events leaves is not looked at before: another function may replace it.
        """
        for state in self._states:
            state.check_event()

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
            if self._checks is not None:
                self._checks.require(self._out.of_event())
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
    *,
    time: EpochTime = NO_EPOCH_TIME,
) -> None:
    """Run all of them over an epoch's `events`, by the name of their source; where there are none, nothing is run.

    States with a time to live are told the time of the event at hand, or the newest of those at hand, and the watermark
    to which the events before it have come: within one function, so that what a function sees does not depend on which
    others there are. One that gets no events, but the cut, sees what lives by the watermark after all of them. Raises
    `DataError` with the position of an event that a function refuses.
    """
    if not any(events.values()):
        return
    expiring = [state for state in states if state.ttl_ms is not None]
    lives_from = _bounded(time, events) if expiring else {}
    newest = {name: max(at) for name, at in lives_from.items() if at}
    for function in functions:
        watermark = Watermark(time)
        if not function.inputs:
            # All events have come before it. With an earlier watermark an entry that has ended would be gone or there,
            # depending on whether an event has touched the state since.
            _tell(expiring, max(newest.values(), default=None), time.reached_ms)
            _run_many(function, [events[each.name] for each in inputs], guard, out)
        for source in function.inputs:
            came = events[source.name]
            if function.is_batch:
                if came:
                    _tell(expiring, newest.get(source.name), watermark.time_ms)
                    _run_many(function, [came], guard, out, list(came))  # a copy: other functions get the same events
                watermark.after(source.name)
            elif expiring:
                before = watermark.before_each(source.name, len(came), came.times)
                times: Sequence[int | None] = lives_from.get(source.name) or [None] * len(came)
                _run_each(function, came, _Told(expiring, times, before), guard, out)
            else:
                _run_each(function, came, None, guard, out)
    _tell(expiring, None, None)


class _Told(NamedTuple):
    """What these states are told before each event: from which time on what it writes lives, and the watermark."""

    states: Sequence[KeyedState]
    times: Sequence[int | None]
    watermarks: Sequence[int | None]


def _bounded(time: EpochTime, events: Mapping[str, CutEvents]) -> Mapping[str, Sequence[int]]:
    """The times from which on what the events write lives: no later than the bound of their source."""
    times = {name: each.times for name, each in events.items() if each.times is not None}
    told = {each.name: each for each in time.sources if each.too_far and each.name in times}
    return {**times, **{name: list(map(each.bounded, times[name])) for name, each in told.items()}}


def _tell(states: Sequence[KeyedState], event_ms: int | None, watermark_ms: int | None) -> None:
    for state in states:
        state.at(event_ms, watermark_ms)


def _run_many(
    function: Function, events: Sequence[CutEvents], guard: Guard | None, out: Emitted, *arguments: Any
) -> None:
    if guard is not None:
        guard.run_many(function, events, *arguments)
        return
    try:
        function.run(out, *arguments)
    except Exception as error:
        if _is_of_before(error, out) or not is_refusal(error):
            raise
        raise error_of_many(function.name, events, error) from error


def _run_each(function: Function, events: CutEvents, told: _Told | None, guard: Guard | None, out: Emitted) -> None:
    """One by one, the states being told the time of each, and the watermark."""
    for first in range(0, len(events), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        if guard is not None:
            for index in range(len(events))[some]:
                if told is not None:
                    _tell(told.states, told.times[index], told.watermarks[index])
                guard.run(function, events, index)
        else:
            rest = iter(events[some])
            try:
                _run_some(function, rest, told, some, out)
            except Exception as error:
                if _is_of_before(error, out) or not is_refusal(error):
                    raise
                index = min(first + AT_ONCE, len(events)) - length_hint(rest) - 1
                raise error_of(Refusal(events.source, events.origin(index), function.name, error)) from error
        out.settle()


def _run_some(function: Function, events: Iterator[Any], told: _Told | None, some: slice, out: Emitted) -> None:
    call = function.call
    if told is None:
        for event in events:
            if (answer := call(event, out)) is not None:
                require_done(answer, function.name)
        return
    for event, event_ms, watermark_ms in zip(events, told.times[some], told.watermarks[some], strict=True):
        for state in told.states:
            state.at(event_ms, watermark_ms)
        if (answer := call(event, out)) is not None:
            require_done(answer, function.name)


def _is_of_before(error: Exception, out: Emitted) -> bool:
    """Whether it is of a row or a value that an event before the one at hand may have left."""
    return error is out.unfit or isinstance(error, UnkeptValueError)
