"""The rows and changes of one epoch: the functions are run over its events, and events that they refuse are found.

An epoch is run as if nothing were refused. Where something is, all of it is dropped and the epoch is run once more,
each event so that it alone can be undone (`EventGuard`): with events that are decoded once more, since a
function may have changed them. A source that cannot decode again is run like that from the start, if there are dead
letters.

A row that a sink refuses shows only when it is written (`service_pass`). Then the epoch is run event by event once
more, and the sinks are asked of each event whether they take its rows: a refusal undoes the event, so that what it did
to states is not there for the next one. Each event is judged by itself, so that it is the same wherever epochs are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import length_hint
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from tpc.coordinator.kernel.feeding.dead_letter_limit import COUNT
from tpc.coordinator.service.cut_events import CutEvents, Refusal
from tpc.coordinator.service.cutting import Cut
from tpc.coordinator.service.epoch_cancellation import CancellationToken
from tpc.coordinator.service.epoch_input import TimesToLive
from tpc.coordinator.service.firing import NEVER_MS, Firing, Firings, counts_of
from tpc.coordinator.service.functions import Function, Input, KeyedState, Undoable
from tpc.coordinator.service.output import Output
from tpc.coordinator.service.program import Program
from tpc.coordinator.service.refusals import error_of, error_of_many, placed, placed_between
from tpc.coordinator.service.row_checks import RowChecks, RowRefusedError
from tpc.coordinator.service.state.epoch_state import EpochState
from tpc.coordinator.service.state.kept import KeptObject
from tpc.coordinator.service.state.window_state import WindowState
from tpc.errors import ConfigurationError, DataError
from tpc.history import History
from tpc.json import JSONObject
from tpc.user_code import UnkeptValueError, is_refusal, is_unkept, require_done
from tpc.watermark import NO_EPOCH_TIME, EpochTime, Watermark

if TYPE_CHECKING:
    import pyarrow

    Made = list[tuple[int, "pyarrow.RecordBatch"]]

Positions = Mapping[str, "JSONObject | None"]
"""Where each changelog stands before an epoch, by its sink's name."""


class Guarded(NamedTuple):
    """The epoch is run event by event; with `checks` the sinks are asked whether they take what each event makes."""

    checks: RowChecks | None


class Computation:
    """Of one epoch: `run` is called once, `without_refused` perhaps once after it.

    `misused` holds what was raised where an `out` was used wrongly. `decided_letters` is how many dead letters the
    epoch has, None as long as it is not decided.
    """

    def __init__(
        self,
        program: Program,
        epoch: int,
        cut: Cut,
        lives: TimesToLive,
        positions: Positions,
        misused: list[ConfigurationError],
        history: History,
        cancellation: CancellationToken,
        *,
        decided_letters: int | None = None,
    ) -> None:
        self._program = program
        self._epoch = epoch
        self._cut = cut
        self._lives = lives
        self._positions = positions
        self._misused = misused
        self._history = history
        self._cancellation = cancellation
        self._came = cut.came
        self._decided_letters = decided_letters
        self._remembered: dict[str, Callable[[], CutEvents]] = {}
        """What gives the events once more, by the name of their source."""
        self._refused: Sequence[Refusal] = ()
        """Of the last run."""

    @property
    def has_letters(self) -> bool:
        """Whether a refused event becomes a dead letter."""
        return self._program.dead_letters is not None

    def counts(self) -> Mapping[str, int]:
        """What the epoch's manifest counts, once it is computed: events, dead letters, late events, firings."""
        letters = {COUNT: len(self._refused)} if self.has_letters else {}
        late = [each.late_in_epoch() for each in self._program.states if isinstance(each, WindowState)]
        windows = {"late": sum(late)} if late else {}
        return {"rows": self._came, **letters, **windows, **counts_of(self._program.timed)}

    def placed(self, error: DataError) -> DataError:
        """An error of a row that comes once the events are gone, with the positions that they were read between."""
        return placed_between(self._cut.sources, error, self._fired())

    def _fired(self) -> bool:
        """Whether a row may be of what has fired, and of no event."""
        return any(each.fired for each in self._program.timed)

    def run(self, checks: RowChecks) -> Made:
        """The batches of the epoch, each with the number of its writing. Raises what ends the epoch."""
        events, time = self._cut.take(), self._cut.time
        letters = self._program.dead_letters
        if letters is None and (refused := _refused(events)):
            raise error_of(refused[0]) from refused[0].error
        is_fresh_again = all(each.is_fresh_again for each in events.values())
        if letters is not None and not is_fresh_again:
            return self._run(events, time, Guarded(checks))
        if letters is not None:
            self._remembered = {name: each.remembered() for name, each in events.items()}
        made = self._run_unguarded_first(events, time, is_fresh_again=is_fresh_again)
        if self._decided_letters and len(self._refused) < self._decided_letters:
            return self._again(checks)  # the others were refused by sinks
        return made

    def without_refused(self, checks: RowChecks) -> Made | None:
        """The same without the events of which a sink refuses a row, after one has refused something.

        None where no event can be blamed for that: then the epoch cannot go on. Nor can one that is decided, in which
        the sink has taken all rows.
        """
        if not self._remembered or self._decided_letters is not None:
            return None
        made = self._again(checks)
        return made if any(each.sink is not None for each in self._refused) else None

    def _again(self, checks: RowChecks) -> Made:
        events = {name: remembered() for name, remembered in self._remembered.items()}
        self._remembered = {}
        for state in self._program.states:
            state.abandon()
        return self._run(events, self._cut.time, Guarded(checks))

    def _run_unguarded_first(self, events: Mapping[str, CutEvents], time: EpochTime, *, is_fresh_again: bool) -> Made:
        letters = self._program.dead_letters
        try:
            return self._run(events, time, None)
        except DataError as error:
            if letters is None and error.position is not None:
                raise  # it is known which event it is
            if not is_fresh_again:
                raise placed(error, events, self._fired())  # noqa: B904  it is the same error
            events = {name: each.again() for name, each in events.items()}
            for state in self._program.states:
                state.abandon()
            made = self._run(events, time, Guarded(None))
            if letters is None:  # what has failed is right now: the program does not do the same twice
                raise placed(error, events, self._fired())  # noqa: B904  it is the same error
            return made

    def _run(self, events: Mapping[str, CutEvents], time: EpochTime, guarded: Guarded | None) -> Made:
        program, letters = self._program, self._program.dead_letters
        for state in program.states:
            state.begin(self._epoch, time.watermark_ms, time.reached_ms, self._lives.get(state.name))
        kept = [state for state in program.states if isinstance(state, EpochState | KeptObject)]
        if letters is not None and guarded is None:
            for each in kept:
                each.notice_unkept()
        out = Output(program.made_by_functions, self._epoch, time.watermark_ms, self._misused)
        refused = None if letters is None else _refused(events)
        guard = None if guarded is None else EventGuard(program.states, out, refused, guarded.checks)
        try:
            wanted = self._cancellation.raise_if_cancelled
            firings = Firings(
                program.passes, program.states, out, time, is_guarded=guard is not None, raise_if_cancelled=wanted
            )
            run_functions(
                program.functions,
                program.inputs,
                events,
                program.states,
                out,
                guard,
                time=time,
                firings=firings,
                raise_if_cancelled=wanted,
            )
            for each in kept:
                each.require_none_unkept()
            made: Made = out.batches()
            made += self._changes()
        except DataError as error:
            raise error if guarded is None else placed(error, events, self._fired())  # noqa: B904  it is the same error
        finally:
            out.end()
        if self._misused:  # by whoever has kept it for himself
            raise self._misused[0]
        self._refused = refused or ()
        if letters is not None and refused:
            if self._decided_letters is None:  # of a decided epoch they are as many as they are
                letters.refuse_too_many(refused, self._came, self._history)
            made += [(program.letters_number, batch) for batch in letters.batches(refused)]
        return made

    def _changes(self) -> Made:
        program = self._program
        of_states = enumerate(program.states, program.first_state_number)
        changed = [(number, state.changes()) for number, state in of_states]
        of_changelogs = enumerate(program.changelogs, program.first_state_number + len(program.states))
        for number, (state, logged) in of_changelogs:
            changed += [(number, batch) for batch in state.logged(self._positions.get(logged.changelog_name))]
        return [(number, batch) for number, batch in changed if batch.num_rows]


def _refused(events: Mapping[str, CutEvents]) -> list[Refusal]:
    return [refusal for each in events.values() for refusal in each.refused]


# How the user's functions are run over the events of an epoch: each after the other, in their order.
#
# An event has the same time and is handled with the same watermark whether it is run with the others or guarded, so
# that it alone can be undone. One that a function refuses has had its time: the watermark goes on by it as by any
# other.

AT_ONCE = 1024
"""Events that a function gets one by one until it is looked whether their rows are many, and whether it is to go on."""
_FIRST_AT_ONCE = 1
"""How long a function takes is not known before its first event."""
_LOOK_S = 0.05
"""So long they may take: a function that needs long for each gets fewer at once."""


def _never_cancelled() -> None:
    pass


class EventGuard:
    """Runs a function for one event so that what it has done for that event alone can be undone.

    That costs much for each event, so an epoch is first run without it. `refused` gets the events that were refused;
    where it is None the first one ends the epoch. With `checks` an event is refused also where a sink does not take a
    row that was made of it.
    """

    def __init__(
        self,
        states: Sequence[KeyedState],
        out: Output,
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
    out: Output,
    guard: EventGuard | None = None,
    *,
    time: EpochTime = NO_EPOCH_TIME,
    firings: Firings | None = None,
    raise_if_cancelled: Callable[[], None] = _never_cancelled,
) -> None:
    """Run all of them over an epoch's `events`, by the name of their source; nothing, without events and firings.

    States with a time to live, and timers, are told the time of the event at hand, or the newest of those at hand, and
    the watermark to which the events before it have come: within one function, so that what a function sees does not
    depend on which others there are, or within those that share a timer. One that gets no events, but the cut, sees
    what lives by the watermark after all of them. What is due fires between the events (`firing`). Raises `DataError`
    with the position of an event that a function refuses.
    """
    if not any(events.values()) and (firings is None or not firings.is_due()):
        return
    expiring = [state for state in states if state.follows_time]
    lives_from = _bounded(time, events) if expiring else {}
    newest = {name: max(at) for name, at in lives_from.items() if at}
    for function in functions:
        raise_if_cancelled()
        firing = None if firings is None else firings.of(function)
        watermark = Watermark(time) if firing is None else firing.watermark
        if firing is not None:
            firing.enter(function)
        if not function.inputs:
            # All events have come before it. With an earlier watermark an entry that has ended would be gone or there,
            # depending on whether an event has touched the state since.
            _tell(expiring, max(newest.values(), default=None), time.reached_ms)
            _run_many(function, [events[each.name] for each in inputs], guard, out)
        for source in function.inputs:
            came = events[source.name]
            if function.is_batch:
                if came:
                    if firing is not None:
                        firing.fire(watermark.time_ms)
                    _tell(expiring, newest.get(source.name), watermark.time_ms)
                    _run_many(function, [came], guard, out, list(came))  # a copy: other functions get the same events
                watermark.after(source.name)
            elif expiring:
                before = watermark.before_each(source.name, len(came), came.times)
                times: Sequence[int | None] = lives_from.get(source.name) or [None] * len(came)
                _run_each(function, came, _Told(expiring, times, before, firing), guard, out, raise_if_cancelled)
            else:
                _run_each(function, came, None, guard, out, raise_if_cancelled)
        if firing is not None:
            firing.leave(function)
    _tell(expiring, None, None)


class _Told(NamedTuple):
    """What these states are told before each event: from which time on what it writes lives, and the watermark.

    Before that what is due at this watermark fires.
    """

    states: Sequence[KeyedState]
    times: Sequence[int | None]
    watermarks: Sequence[int | None]
    firing: Firing | None


def _bounded(time: EpochTime, events: Mapping[str, CutEvents]) -> Mapping[str, Sequence[int]]:
    """The times from which on what the events write lives: no later than the bound of their source."""
    times = {name: each.times for name, each in events.items() if each.times is not None}
    told = {each.name: each for each in time.sources if each.too_far and each.name in times}
    return {**times, **{name: list(map(each.bounded, times[name])) for name, each in told.items()}}


def _tell(states: Sequence[KeyedState], event_ms: int | None, watermark_ms: int | None) -> None:
    for state in states:
        state.at(event_ms, watermark_ms)


def _run_many(
    function: Function, events: Sequence[CutEvents], guard: EventGuard | None, out: Output, *arguments: Any
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


def _run_each(
    function: Function,
    events: CutEvents,
    told: _Told | None,
    guard: EventGuard | None,
    out: Output,
    raise_if_cancelled: Callable[[], None],
) -> None:
    """One by one, the states being told the time of each, and the watermark."""
    first, step = 0, _FIRST_AT_ONCE
    while first < len(events):
        began_s, some = monotonic(), slice(first, min(first + step, len(events)))
        if guard is not None:
            for index in range(some.start, some.stop):
                if told is not None:
                    if told.firing is not None:
                        told.firing.fire(told.watermarks[index])
                    _tell(told.states, told.times[index], told.watermarks[index])
                guard.run(function, events, index)
        else:
            rest = iter(events[some])
            try:
                _run_some(function, rest, told, some, out)
            except Exception as error:
                is_of_firing = told is not None and told.firing is not None and error is told.firing.failed
                if is_of_firing or _is_of_before(error, out) or not is_refusal(error):
                    raise
                index = some.stop - length_hint(rest) - 1
                raise error_of(Refusal(events.source, events.origin(index), function.name, error)) from error
        out.settle()
        raise_if_cancelled()
        first = some.stop
        step = min(4 * step, AT_ONCE) if monotonic() - began_s < _LOOK_S / 4 else max(1, step // 4)


def _run_some(function: Function, events: Iterator[Any], told: _Told | None, some: slice, out: Output) -> None:
    call = function.call
    if told is None:
        for event in events:
            if (answer := call(event, out)) is not None:
                require_done(answer, function.name)
        return
    firing = told.firing
    for event, event_ms, watermark_ms in zip(events, told.times[some], told.watermarks[some], strict=True):
        if firing is not None and firing.is_due(NEVER_MS if watermark_ms is None else watermark_ms):
            firing.fire(watermark_ms)
        for state in told.states:
            state.at(event_ms, watermark_ms)
        if (answer := call(event, out)) is not None:
            require_done(answer, function.name)


def _is_of_before(error: Exception, out: Output) -> bool:
    """Whether it is of a row or a value that an event before the one at hand may have left."""
    return error is out.unfit or isinstance(error, UnkeptValueError)
