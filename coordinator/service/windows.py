"""Windows of a service: what the functions add to a window, and what is told of it when it is over.

They are a function of one state, `NAME-open`, and one timer by event time, `NAME-close`, and hold nothing themselves.
So an event that is refused, an epoch that is run again, a replay, a savepoint and a changelog take windows along as
they take states and timers; and where epochs are cut shows in windows as little as in timers (`firing`).

A tumbling or hopping window has an entry `(key, start_ms)` in both: in the state its accumulator and how many results
it has had, in the timer the time of its next result. Sessions have one entry `(key,)` for all open ones of a key: in
the state their bounds and accumulators, in the timer the time at which the first of them is over.

Whether a window is over is judged by the time up to which everything due has fired (`Timer.passed_ms`): that is the
watermark for an event, and the time that was due in a firing, so that what a window tells can be added to a longer one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

from tpc.coordinator.service.state.codec import decode, encode
from tpc.coordinator.service.state.state import canonical
from tpc.coordinator.service.state.timer import Timer
from tpc.coordinator.service.state.touched_entries import FIXED
from tpc.coordinator.service.state.window_state import LATE, WindowState
from tpc.describing import described
from tpc.durations import require_length
from tpc.errors import ConfigurationError, DataError
from tpc.json import JSONObject
from tpc.user_code import require_done, require_plain
from tpc.watermark import whole_ms
from tpc.windows import Hopping, Session, Tumbling, Window, bridged, is_over, over_ms

Shape = Tumbling | Hopping | Session


class Calls(NamedTuple):
    """The user's functions of windows; see `service.windows`."""

    add: Callable[[Any, Any], Any]
    result: Callable[[Any, Window, Any, Any], Any]
    merge: Callable[[Any, Any], Any] | None
    late: Callable[[Any, Any, Window, Any], Any] | None


class Plan(NamedTuple):
    """What `service.windows` is told, once it is checked."""

    name: str
    of: Shape
    calls: Calls
    lateness_ms: int
    updates: bool

    @property
    def settings(self) -> JSONObject:
        """What may not change while the windows are kept."""
        return {**self.of.to_json(), "lateness_ms": self.lateness_ms, "updates": self.updates}

    @property
    def state_name(self) -> str:
        """Of the state of what is open."""
        return f"{self.name}-open"

    @property
    def timer_name(self) -> str:
        """Of the timer that closes it."""
        return f"{self.name}-close"


def plan_of(name: str, of: object, calls: Calls, lateness_s: float, *, updates: bool) -> Plan:
    """Raises `ConfigurationError` for what means nothing."""
    whose = f"windows {name!r}"
    if not isinstance(of, (Tumbling, Hopping, Session)):
        raise ConfigurationError(
            f"{whose} cannot be {described(of, 60)}",
            remedy="give one of tpc.windows: Tumbling(tpc.seconds(60)), Hopping(size, every) or Session(gap).",
        )
    require_length(whose, "lateness", lateness_s, 0.0)
    for said, function in calls._asdict().items():
        if function is not None:
            require_plain(function, f"{said}= of {whose}")
    is_session = isinstance(of, Session)
    if is_session and calls.merge is None:
        raise ConfigurationError(
            f"{whose} are sessions without merge=: an event may join two of them",
            remedy="say what two accumulators are together: merge=lambda earlier, later: earlier + later, for sums.",
        )
    if not is_session and calls.merge is not None:
        raise ConfigurationError(
            f"{whose} have merge= and are no sessions: no two of them are ever joined", remedy="leave merge= out."
        )
    if is_session and updates:
        raise ConfigurationError(
            f"{whose} are sessions with updates=True: what was told of two of them would stay when they are joined",
            remedy="leave updates= out: a session is told once, when nothing can join it any more.",
        )
    return Plan(name, of, calls, round(lateness_s * 1000), updates)


class Windows:
    """What `service.windows` returns, for the functions in whose pass its timer fires."""

    def __init__(self, plan: Plan, state: WindowState, timer: Timer) -> None:
        self.name = plan.name
        self.timer = timer
        self._open = (
            _Sessions(plan, plan.of, state, timer)
            if isinstance(plan.of, Session)
            else _Aligned(plan, plan.of, state, timer)
        )
        self._state = state
        timer.fires(self._open.fire)

    def __repr__(self) -> str:
        return f"Windows({self.name!r})"

    def add(self, key: Any, value: Any, out: Any, *, at: int) -> None:
        """Add a value to the windows of a key that the time `at` falls into, in ms since 1970.

        `out` is that of the function at hand. A window that is over by the watermark takes nothing more: the value is
        counted as late, and given to `late=`, once for each such window. Raises `DataError` for a key or an accumulator
        that cannot be kept, and for a time that is no whole number of milliseconds of the years 1 to 9999.
        """
        passed_ms = self.timer.passed_ms()
        at_ms = whole_ms(at)
        if at_ms is None:
            raise DataError(
                f"windows {self.name!r}: at={described(at, 100)} of the key {described(key, 100)} is no whole number "
                "of milliseconds of the years 1 to 9999",
                remedy="give at= as an int: that of time= of the source, or round(value.timestamp() * 1000) of a "
                "datetime.",
            )
        self._open.add(canonical(key), value, at_ms, passed_ms, out)

    def late(self) -> int:
        """How often a value came too late for a window, since the service began; asked by its functions only."""
        count: int = self._state.get(LATE, 0)
        return count


class _Kept:
    """What the kinds of windows have in common."""

    def __init__(self, plan: Plan, state: WindowState, timer: Timer) -> None:
        self._plan = plan
        self._calls = plan.calls
        self._state = state
        self._timer = timer

    def _closes_ms(self, window: Window) -> int:
        return over_ms(window.end_ms, self._plan.lateness_ms)

    def _late(self, key: Any, value: Any, window: Window, out: Any) -> None:
        self._state.count_late()
        if self._calls.late is not None:
            require_done(self._calls.late(key, value, window, out), f"late= of windows {self._plan.name!r}")

    def _told(self, key: Any, window: Window, accumulator: Any, out: Any) -> None:
        answer = self._calls.result(key, window, accumulator, out)
        require_done(answer, f"result= of windows {self._plan.name!r}")

    def _apart(self, accumulator: Any) -> Any:
        """A copy, as the next epoch would read it: windows, events and user code may share an object."""
        if type(accumulator) in _FIXED:
            return accumulator
        try:
            return decode(encode(accumulator))
        except DataError as error:
            error.what = f"windows {self._plan.name!r}: {error.what.replace('a value of a state', 'an accumulator')}"
            error.args = (error.what,)
            raise


class _Aligned(_Kept):
    """Tumbling and hopping windows, each by itself."""

    def __init__(self, plan: Plan, of: Tumbling | Hopping, state: WindowState, timer: Timer) -> None:
        super().__init__(plan, state, timer)
        self._of = of

    def add(self, key: Any, value: Any, at_ms: int, passed_ms: int | None, out: Any) -> None:
        """To each window of this time that is not over, the earliest first."""
        for window in self._of.windows_of(at_ms):
            if is_over(self._closes_ms(window), passed_ms):
                self._late(key, value, window, out)
            else:
                self._add(key, value, window, passed_ms, out)

    def _add(self, key: Any, value: Any, window: Window, passed_ms: int | None, out: Any) -> None:
        entry = (key, window.start_ms)
        held = self._state.get(entry)
        accumulator, revision = (None, 0) if held is None else held
        made = self._apart(self._calls.add(accumulator, value))
        ends_ms = over_ms(window.end_ms)
        is_update = self._plan.updates and is_over(ends_ms, passed_ms)
        self._state.write_settings()
        self._state[entry] = (made, revision + is_update)
        if held is None:
            self._timer.set(entry, at=ends_ms if self._plan.updates and not is_update else self._closes_ms(window))
        if is_update:
            self._told(key, window._replace(revision=revision, is_final=False), self._apart(made), out)

    def fire(self, entry: Any, at_ms: int, out: Any) -> None:
        """A window has ended, or is over."""
        key, start_ms = entry
        window = self._of.window_from(start_ms)
        accumulator, revision = self._state[entry]
        closes_ms = self._closes_ms(window)
        if at_ms < closes_ms:
            self._state[entry] = (accumulator, revision + 1)
            self._timer.set(entry, at=closes_ms)
            self._told(key, window._replace(revision=revision, is_final=False), self._apart(accumulator), out)
        else:
            del self._state[entry]
            self._told(key, window._replace(revision=revision), accumulator, out)


class _Sessions(_Kept):
    """The open sessions of each key, the earliest first. None overlaps another one, so that the first is over first."""

    def __init__(self, plan: Plan, of: Session, state: WindowState, timer: Timer) -> None:
        super().__init__(plan, state, timer)
        self._of = of

    def add(self, key: Any, value: Any, at_ms: int, passed_ms: int | None, out: Any) -> None:
        """To the session that the value is part of, unless that is over."""
        entry = (key,)
        window, joined, apart = bridged(self._state.get(entry, ()), self._of.window_of(at_ms))
        if is_over(self._closes_ms(window), passed_ms):
            self._late(key, value, window, out)
            return
        accumulator = reduce(self._merged, [each[2] for each in joined]) if joined else None
        made = self._apart(self._calls.add(accumulator, value))
        self._state.write_settings()
        self._keep(entry, sorted([*apart, (window.start_ms, window.end_ms, made)], key=_start))

    def fire(self, entry: Any, at_ms: int, out: Any) -> None:
        """The first session of a key is over."""
        (start_ms, end_ms, accumulator), *others = self._state[entry]
        if others:
            self._keep(entry, others)
        else:
            del self._state[entry]
        self._told(entry[0], Window(start_ms, end_ms), accumulator, out)

    def _merged(self, earlier: Any, later: Any) -> Any:
        assert self._calls.merge is not None
        return self._apart(self._calls.merge(earlier, later))

    def _keep(self, entry: tuple[Any], sessions: Sequence[tuple[int, int, Any]]) -> None:
        self._state[entry] = tuple(sessions)
        closes_ms = self._closes_ms(Window(*sessions[0][:2]))
        if self._timer.pending(entry) != closes_ms:
            self._timer.set(entry, at=closes_ms)


def _start(session: tuple[int, int, Any]) -> int:
    return session[0]


_FIXED = FIXED - {datetime}
"""What needs no copy and can be kept whatever it is; a datetime only with some time zones."""
