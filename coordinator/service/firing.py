"""When timers fire, and `on_expiry` is called, among the events of an epoch: so that the cut never shows.

A timer belongs to a pass: the functions that name it (`service.each(..., timers=[...])`), or, where none does, those
that name none. They read different sources, are run over an epoch's events one after the other, and share one
watermark. In their pass

- each event is handled with the watermark to which the events before it have come (`tpc.watermark.Watermark`);
- *before each event*, what is due at this watermark fires, the earliest first: in the order (time, name, key), one
  after the other until nothing is due. So what a firing sets fires at once if it is due, in its place in that order;
- *after the last event of the pass*, what is due at the watermark to which the epoch comes (`EpochTime.reached_ms`).
  The next epoch begins with that watermark, so it is what would fire before its first event.

So between two events everything fires that is due at the watermark between them, and nothing else, whether the two are
in one epoch or in two. (Functions of another pass, and of the cut, come after all events of an epoch: what these change
of the same states shows the cut, as it does without timers.)

A timer by the clock is due when the time that the epoch has read (`EpochTime.now_ms`, in the intent) has come to it:
before the pass's first event, and those that are set meanwhile before the next one. Which epoch that is depends on the
clock, and so on the cut.

A firing is no event. What it does cannot be refused: an error in it names timer, key and time, and ends the epoch. An
event that is refused has set and cancelled nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tpc.coordinator.service.functions import Function, KeyedState, Undoable
from tpc.coordinator.service.state.due import CLOCK
from tpc.errors import ConfigurationError, DataError
from tpc.user_code import UnkeptValueError, is_refusal, said
from tpc.watermark import NO_EPOCH_TIME, TIME_MIN_MS, EpochTime, Watermark

if TYPE_CHECKING:
    from tpc.coordinator.service.output import Output

NEVER_MS = TIME_MIN_MS - 1
"""Stands for a watermark that is not known: nothing is due at it."""
AT_ONE_TIME = 100_000
"""So many firings in a row, besides those that were due together, may set one another without a later time."""
_LOOK_S = 0.05
"""After so long it is looked whether their rows are many, and whether the epoch is still wanted."""
_REMEDY = (
    "correct the program, then start it again: the epoch is read again from where it began, and this fires again. A "
    "firing is no event, and never a dead letter."
)


class Timed(Protocol):
    """A timer, or a state with `on_expiry`: what can be due."""

    name: str
    fired: int
    """How often it has fired in the running epoch."""

    @property
    def by(self) -> str:
        """By which time it is due: `EVENT_TIME` or `CLOCK`."""

    def require_function(self) -> None:
        """Raise `ConfigurationError` where there is nothing to call."""

    def open(self, time: EpochTime) -> None:
        """An epoch of this time has begun: look for what is due in it."""

    def let(self, *, is_open: bool) -> None:
        """Whether a function runs that may set it."""

    def is_due(self, watermark_ms: int) -> bool:
        """Whether something may be due at this watermark; costs next to nothing."""

    def first_due(self, watermark_ms: int) -> tuple[int, bytes] | None:
        """What is due first at this watermark: its time and its key's bytes."""

    def size(self) -> int:
        """How much may be due in the epoch."""

    def event_ms_of(self, at_ms: int) -> int | None:
        """The event time that a firing for this time has."""

    def take_first(self) -> None:
        """What `first_due` has returned is due no more; `fire` is called for it next."""

    def fire(self, at_ms: int, key: bytes, out: Output) -> None:
        """Call the user's function for it: it is pending no more."""

    def described(self, at_ms: int, key: bytes) -> str:
        """A firing, for people."""

    def first_ms(self) -> int | None:
        """When the first of all that waits is due, once the epoch is cut."""

    def count(self) -> int:
        """How many wait, once the epoch is cut."""


class Pass(NamedTuple):
    """The functions in whose pass these fire."""

    functions: tuple[Function, ...]
    timed: tuple[Timed, ...]

    def has(self, function: Function) -> bool:
        """Whether it is one of them."""
        return any(each is function for each in self.functions)


def passes_of(functions: Sequence[Function], timed: Sequence[Timed]) -> list[Pass]:
    """In which passes these timers fire. Raises `ConfigurationError` where that is not clear."""
    of_functions = [function for function in functions if function.inputs]
    unnamed = [one for one in timed if not any(_is_in(one, function.timers) for function in of_functions)]
    passes: list[Pass] = []
    for function in of_functions:
        mine = [one for one in timed if _is_in(one, function.timers)] or (unnamed if not function.timers else [])
        if not mine:
            continue
        shared = [each for each in passes if any(_is_in(one, each.timed) for one in mine)]
        passes = [each for each in passes if not _is_in(each, shared)]
        together = tuple(one for one in timed if _is_in(one, mine) or any(_is_in(one, each.timed) for each in shared))
        passes.append(Pass((*(each for one in shared for each in one.functions), function), together))
    if left := [one for one in timed if not any(_is_in(one, each.timed) for each in passes)]:
        raise ConfigurationError(
            f"no function names {left[0].name!r}, and each names others: it is not clear in whose pass it fires",
            remedy=f"name it at the function of events that uses it: service.each(source, timers=[{left[0].name}]).",
        )
    for each in passes:
        _require_apart(each)
    return passes


def _is_in(one: object, many: Iterable[object]) -> bool:
    return any(each is one for each in many)


def _require_apart(one: Pass) -> None:
    """Two passes over the same events are no order of events and firings."""
    by_source: dict[str, Function] = {}
    for function in one.functions:
        for each in function.inputs:
            other = by_source.setdefault(each.name, function)
            if other is not function:
                raise ConfigurationError(
                    f"{other.name} and {function.name} both take the events of source {each.name!r}, one after the "
                    f"other, and {one.timed[0].name!r} would fire in the pass of both",
                    remedy=f"name it at the one that uses it: service.each(source, timers=[{one.timed[0].name}]); or "
                    "let one function do what both do.",
                )


class Firing:
    """Of one pass in one epoch. `watermark` goes on with the events of its functions."""

    def __init__(
        self,
        of: Pass,
        states: Sequence[KeyedState],
        out: Output,
        time: EpochTime,
        *,
        is_guarded: bool,
        raise_if_cancelled: Callable[[], None],
    ) -> None:
        self.watermark = Watermark(time)
        self.failed: Exception | None = None
        """The error of a firing: not that of an event."""
        self._of = of
        self._states = [state for state in states if state.follows_time]
        self._out = out
        self._reached_ms = time.reached_ms
        self._raise_if_cancelled = raise_if_cancelled
        self._guarded: list[Undoable] = [out, *states] if is_guarded else []
        """What is looked at after each firing, so that an error names it."""
        for one in of.timed:
            one.open(time)

    def is_due_in_epoch(self) -> bool:
        """Whether something is due before or after all its events."""
        return self.is_due(NEVER_MS if self._reached_ms is None else self._reached_ms)

    def is_due(self, watermark_ms: int) -> bool:
        """Whether something may be; asked before each event."""
        return any(one.is_due(watermark_ms) for one in self._of.timed)

    def enter(self, function: Function) -> None:
        """A function of the pass is run from here on."""
        assert self._of.has(function)
        for one in self._of.timed:
            one.let(is_open=True)

    def leave(self, function: Function) -> None:
        """It has been. After the last of the pass what is due at the end of the epoch fires."""
        if function is self._of.functions[-1]:
            self.fire(self._reached_ms)
        for one in self._of.timed:
            one.let(is_open=False)

    def fire(self, watermark_ms: int | None) -> None:
        """All that is due at this watermark, the earliest first. Raises `DataError` for what one of them raises."""
        limit_ms = NEVER_MS if watermark_ms is None else watermark_ms
        latest_ms, count, most, looked_s = NEVER_MS, 0, AT_ONE_TIME, monotonic()
        while found := [(*due, one) for one in self._of.timed if (due := one.first_due(limit_ms)) is not None]:
            at_ms, key, one = min(found, key=lambda due: (due[0], due[2].name, due[1]))
            latest_ms, count = (at_ms, 0) if at_ms > latest_ms else (latest_ms, count + 1)
            if count > most:
                most = max(most, AT_ONE_TIME + sum(each.size() for each in self._of.timed))
                if count > most:
                    raise _endless(one.described(at_ms, key), count)
            event_ms = one.event_ms_of(at_ms)
            for state in self._states:
                state.at(event_ms, watermark_ms, is_firing=True)
            self._fire(one, at_ms, key)
            if monotonic() >= looked_s + _LOOK_S:
                self._out.settle()
                self._raise_if_cancelled()
                looked_s = monotonic()

    def _fire(self, one: Timed, at_ms: int, key: bytes) -> None:
        one.take_first()
        for each in self._guarded:
            each.begin_event()
        try:
            one.fire(at_ms, key, self._out)
            for each in self._guarded:
                each.check_event()
        except Exception as error:
            self.failed = error
            if not is_refusal(error) or (not self._guarded and _is_of_before(error, self._out)):
                raise
            self.failed = _error_of(one, at_ms, key, error)
            raise self.failed from error
        for each in self._guarded:
            each.end_event(is_kept=True)


def _is_of_before(error: Exception, out: Output) -> bool:
    """Whether an event before it may have left what it has met: it is looked for then, event by event."""
    return error is out.unfit or isinstance(error, UnkeptValueError)


def _endless(firing: str, count: int) -> ConfigurationError:
    return ConfigurationError(
        f"{firing} is the last of {count:,} firings in a row that have set one another, none for a later time than the "
        "first: they would never end",
        remedy="let a firing set a later time than its own: set(key, after=tpc.seconds(60)), say.",
    )


def _error_of(one: Timed, at_ms: int, key: bytes, error: Exception) -> DataError:
    firing = one.described(at_ms, key)
    column, of_key = (error.column, error.key) if isinstance(error, DataError) else (None, None)
    made = DataError(f"{firing} has failed: {said(error)}", column=column, key=of_key, remedy=_REMEDY)
    made.position, made.function = firing, firing
    return made


def _never_cancelled() -> None:
    pass


class Firings:
    """Of all passes in one epoch, whose states have begun."""

    def __init__(
        self,
        passes: Sequence[Pass],
        states: Sequence[KeyedState],
        out: Output,
        time: EpochTime = NO_EPOCH_TIME,
        *,
        is_guarded: bool = False,
        raise_if_cancelled: Callable[[], None] = _never_cancelled,
    ) -> None:
        self._firings = [
            (each, Firing(each, states, out, time, is_guarded=is_guarded, raise_if_cancelled=raise_if_cancelled))
            for each in passes
        ]

    def of(self, function: Function) -> Firing | None:
        """Those in the pass of a function, if there are some."""
        return next((firing for each, firing in self._firings if each.has(function)), None)

    def is_due(self) -> bool:
        """Whether something is due in the epoch."""
        return any(firing.is_due_in_epoch() for _, firing in self._firings)


# What waits, for the log and for the next cut.


class Soonest(NamedTuple):
    """When the first is due of all that waits, by event time and by the clock; None where nothing waits."""

    event_ms: int | None = None
    clock_ms: int | None = None


def soonest(timed: Iterable[Timed]) -> Soonest:
    """Of these, which are as the last epoch has left them."""
    ends: dict[bool, list[int]] = {False: [], True: []}
    for one in timed:
        if (first_ms := one.first_ms()) is not None:
            ends[one.by == CLOCK].append(first_ms)
    return Soonest(min(ends[False], default=None), min(ends[True], default=None))


def counts_of(timed: Sequence[Timed]) -> dict[str, int]:
    """What an epoch's manifest tells of them, once it is cut: firings, how many wait, and when the first are due."""
    if not timed:
        return {}
    first = soonest(timed)
    told: dict[str, Any] = {"next_due_ms": first.event_ms, "next_clock_due_ms": first.clock_ms}
    known = {name: at_ms for name, at_ms in told.items() if at_ms is not None}
    return {"fired": sum(one.fired for one in timed), "waiting": sum(one.count() for one in timed), **known}
