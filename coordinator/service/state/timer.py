"""A timer of a service: for each key the time at which its function is called, a participant of every epoch.

What is pending lies in a store like that of a state, one entry for each key, whose `expires_ms` is the time at which it
is due. So the store's index by that time, its changelog, compaction, undo and the move to another machine are those of
a state, and an epoch costs what it sets and what is due. When what is due is called is in `service.firing`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, NoReturn, TypeVar

import pyarrow

from tpc.coordinator.service.state.changelog_rows import changelog_rows
from tpc.coordinator.service.state.changes import Change, to_batch
from tpc.coordinator.service.state.codec import TIMER, VERSION, decode, encode, encode_key
from tpc.coordinator.service.state.contents import Contents
from tpc.coordinator.service.state.due import CLOCK, EVENT_TIME, By, first_ms, instant
from tpc.coordinator.service.state.state import canonical
from tpc.describing import described
from tpc.durations import LENGTH_MAX_S, is_length
from tpc.errors import ConfigurationError, DataError, StateMachineError
from tpc.json import JSONObject
from tpc.time_to_live import TimeToLive
from tpc.user_code import name_of, require_done, require_plain
from tpc.watermark import TIME_MAX_MS, TIME_MIN_MS, EpochTime, whole_ms

Call = TypeVar("Call", bound=Callable[..., Any])

_UNSET = object()


class Timer:
    """What `service.timer` returns: times at which its function is called, one pending for each key.

    `set`, `cancel` and `pending` are for the functions in whose pass the timer fires, and for its own function; every
    other call raises `StateMachineError`. Without a key they are of the one that is for all: None is a key like others.
    """

    ttl_ms: int | None = None
    follows_time = True

    def __init__(self, name: str, by: By, contents: Contents) -> None:
        self.name = name
        self.by = by
        self.function: Callable[..., Any] | None = None
        self.fired = 0
        """How often it has fired in the running epoch."""
        self._contents = contents
        self._set: dict[bytes, Any] = {}
        """What the epoch has made of each key that it has touched: when it is due, None where nothing is pending."""
        self._before: dict[bytes, Any] | None = None
        """The same of the keys that the event at hand has touched, as it was before; None: no event can be undone."""
        self._due: list[tuple[int, bytes]] = []
        """A heap of what is due in the epoch; what is in it may have been set elsewhere since."""
        self._upto_ms: int | None = None
        self._now_ms: int | None = None
        self._event_ms: int | None = None
        self._watermark_ms: int | None = None
        self._passed_ms: int | None = None
        """Up to where what was due has fired in the pass; None until its first event or firing of the epoch."""
        self._epoch = contents.epoch
        self._taken: dict[bytes, Change] | None = None
        self._added = 0
        self._thread = 0
        """That of the running epoch; 0 outside of one."""
        self._is_open = False
        """A function runs that may set it."""

    def __repr__(self) -> str:
        return f"Timer({self.name!r})"

    # For the user ----------------------------------------------------------------------------------------------

    def fires(self, function: Call) -> Call:
        """Decorates `function(key, at_ms, out)`, called when the timer of a key is due, which was set for `at_ms`."""
        require_plain(function, f"the function of timer {self.name!r}")
        if self.function is not None:
            raise ConfigurationError(
                f"timer {self.name!r} has a function already, {name_of(self.function)}",
                remedy="let one function do both, or make another timer.",
            )
        self.function = function
        return function

    def set(self, key: Any = None, *, at: int | None = None, after: float | None = None) -> None:
        """Let it fire for this key `at` a time, in ms since 1970, or `after` so many seconds; it replaces one pending.

        `after` counts from the time of the event at hand, in a firing from the time that was due; by the clock from
        the time that the epoch has read. What is due already fires before the next event. Raises `DataError` for a key
        that cannot be kept, and for a time that is no whole number of milliseconds of the years 1 to 9999.
        """
        encoded = self._code(key, "set")
        if (at is None) == (after is None):
            raise ConfigurationError(
                f"timer {self.name!r} is set with {'neither at= nor' if at is None else 'both at= and'} after=",
                remedy="give one of them: at=, in milliseconds since 1970, or after=tpc.seconds(300).",
            )
        at_ms = self._checked(at, key) if at is not None else self._later(after, key)
        self._put(encoded, at_ms)
        if self._upto_ms is not None and at_ms <= self._upto_ms:
            heapq.heappush(self._due, (at_ms, encoded))

    def cancel(self, key: Any = None) -> None:
        """Let it not fire for this key; nothing, where nothing is pending."""
        self._put(self._code(key, "cancelled"), None)

    def pending(self, key: Any = None) -> int | None:
        """When it is due for this key, in ms since 1970; None where nothing is pending."""
        return self._at(self._code(key, "asked"))

    def require_function(self) -> None:
        """Raise `ConfigurationError` where there is nothing to call."""
        if self.function is None:
            raise ConfigurationError(
                f"timer {self.name!r} has no function: nothing would come of it",
                remedy="@timer.fires, above a function(key, at_ms, out).",
            )

    # For the runtime: what is due ------------------------------------------------------------------------------

    def open(self, time: EpochTime) -> None:
        """An epoch of this time goes through its functions."""
        self._now_ms = time.now_ms
        self._upto_ms = time.reached_ms if self.by == EVENT_TIME else time.now_ms
        self._due = [] if self._upto_ms is None else self._contents.due(self._upto_ms)  # in order: a heap

    def let(self, *, is_open: bool) -> None:
        """Whether a function runs that may set it."""
        self._is_open = is_open

    def is_due(self, watermark_ms: int) -> bool:
        """Whether something may be due at this watermark, or by the epoch's clock."""
        return bool(self._due) and (self.by == CLOCK or self._due[0][0] <= watermark_ms)

    def first_due(self, watermark_ms: int) -> tuple[int, bytes] | None:
        """What is due first at this watermark, or by the epoch's clock."""
        while self.is_due(watermark_ms):
            at_ms, key = self._due[0]
            if self._set.get(key, at_ms) == at_ms:
                return at_ms, key
            heapq.heappop(self._due)
        return None

    def size(self) -> int:
        """How much may be due."""
        return len(self._due)

    def event_ms_of(self, at_ms: int) -> int | None:
        """The event time that a firing for `at_ms` has."""
        return at_ms if self.by == EVENT_TIME else None

    def take_first(self) -> None:
        """What `first_due` has returned is due no more."""
        heapq.heappop(self._due)

    def fire(self, at_ms: int, key: bytes, out: Any) -> None:
        """Call its function for that; it is pending no more."""
        self._put(key, None)
        self.fired += 1
        assert self.function is not None
        if (answer := self.function(_decoded(key), at_ms, out)) is not None:
            require_done(answer, self.described(at_ms, key))

    def described(self, at_ms: int, key: bytes) -> str:
        """A firing, for people."""
        return f"timer {self.name!r} for the key {described(_decoded(key), 100)} at {at_ms} ({instant(at_ms)})"

    def first_ms(self) -> int | None:
        """When the first of all that is pending is due, the cut of an epoch among it."""
        return first_ms(self._contents, self._taken or {})

    def count(self) -> int:
        """How many are pending, once the epoch is cut."""
        return len(self._contents) + self._added

    # For the runtime: a participant of every epoch --------------------------------------------------------------

    def restore(self, *, before: int | None = None) -> None:
        """Read it from the store, as it is; or as it was before an epoch that is decided and not complete."""
        self._contents.restore(before)
        one = next(self._contents.some(), None)
        if one is not None and (one.key[:1], one.value) != (TIMER, encode(self.by)):
            is_timer = one.key[:1] == TIMER
            held = f"times by {decode(one.value or b'')}" if is_timer else "what is no timer"
            raise ConfigurationError(
                f"the store of timer {self.name!r} holds {held}, and the program has it by {self.by}",
                sink=self.name,
                remedy="give the timer a name of its own, or what it was before.",
            )
        self._forget()
        self._epoch = self._contents.epoch

    def begin(
        self, epoch: int, watermark_ms: int | None = None, reached_ms: int | None = None, life: TimeToLive | None = None
    ) -> None:
        """Begin an epoch, in the caller's thread; the one before it, if it was cut, is decided."""
        del watermark_ms, reached_ms, life  # `open` tells the time
        if self._taken:
            self._contents.fold(self._epoch, self._taken, self._added)
        self._forget()
        self._epoch, self._thread = epoch, get_ident()

    def at(self, event_ms: int | None, watermark_ms: int | None, *, is_firing: bool = False) -> None:
        """The event at hand has this time, or the firing."""
        self._event_ms, self._watermark_ms = event_ms, watermark_ms
        passed_ms = event_ms if is_firing else watermark_ms
        if self._is_open and passed_ms is not None and (self._passed_ms is None or passed_ms > self._passed_ms):
            self._passed_ms = passed_ms  # other functions than those of its pass have a watermark of their own

    def passed_ms(self) -> int | None:
        """The event time up to which everything that was due has fired; None as long as none is known.

        For an event it is the watermark; in a firing the latest time that has fired, since more may be due. Raises
        `StateMachineError` as `pending` does.
        """
        self._require_open("asked")
        return self._watermark_ms if self._passed_ms is None else self._passed_ms

    def changes(self) -> pyarrow.RecordBatch:
        """The cut: what the epoch has set, cancelled, and called. The same when it is asked again."""
        if self._taken is None:
            cut, added, value = dict[bytes, Change](), 0, encode(self.by)
            held = self._contents.get_all(self._set)
            for key in sorted(self._set):
                at_ms, before = self._set[key], held.get(key)
                if at_ms != (None if before is None else before.expires_ms):
                    cut[key] = Change(key, None if at_ms is None else value, at_ms)
                    added += (at_ms is not None) - (before is not None)
            self._taken, self._added, self._thread = cut, added, 0
        return to_batch(self._taken.values(), self._contents.epoch)

    def logged(self, position: JSONObject | None) -> Sequence[pyarrow.RecordBatch]:
        """The same for its changelog, which stands at `position`; None: all that is pending."""
        return list(changelog_rows(self._contents, self._taken or {}, position))

    def abandon(self) -> None:
        """The epoch is aborted."""
        self._forget()

    def close(self) -> None:
        """Let go of the store; `restore` opens it again."""
        self._contents.store.close()

    def begin_event(self) -> None:
        """What changes from here on is of one event, until `end_event`."""
        self._before = {}

    def check_event(self) -> None:
        """What is set can be kept, or was refused at once."""

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what has changed since `begin_event`, or undo it."""
        before, self._before = self._before, None
        if is_kept or before is None:
            return
        for key, at_ms in before.items():  # also what it was before the epoch: what the event set may be in the heap
            self._set[key] = self._held(key) if at_ms is _UNSET else at_ms

    def _forget(self) -> None:
        self._set, self._before, self._due, self._upto_ms = {}, None, [], None
        self._taken, self._added, self._thread, self._is_open, self.fired = None, 0, 0, False, 0
        self._now_ms = self._event_ms = self._watermark_ms = self._passed_ms = None

    def _put(self, key: bytes, at_ms: int | None) -> None:
        if self._before is not None and key not in self._before:
            self._before[key] = self._set.get(key, _UNSET)
        self._set[key] = at_ms

    def _at(self, key: bytes) -> int | None:
        found = self._set.get(key, _UNSET)
        at_ms: int | None = self._held(key) if found is _UNSET else found
        return at_ms

    def _held(self, key: bytes) -> int | None:
        """When it was due before the epoch."""
        held = self._contents.get(key)
        return None if held is None else held.expires_ms

    # What is refused -------------------------------------------------------------------------------------------

    def _code(self, key: Any, done: str) -> bytes:
        """The bytes of a key, once it is sure that this call may be."""
        self._require_open(done)
        try:
            return TIMER + encode_key(canonical(key))[1:]
        except DataError as error:
            error.what = f"timer {self.name!r}: {error.what.replace('a key of a state', 'a key')}"
            error.args = (error.what,)
            raise

    def _require_open(self, done: str) -> None:
        if get_ident() != self._thread or not self._is_open:
            self._refuse(done)

    def _refuse(self, done: str) -> NoReturn:
        if not self._thread:
            what, remedy = "outside of an epoch, where nothing is kept", "use it in a function of the service."
        elif get_ident() != self._thread:
            what = f"by another thread than the one that runs epoch {self._epoch}"
            remedy = "use it in the functions of the service only, in the thread that calls them."
        else:
            what = "by a function in whose pass it does not fire"
            remedy = "name it where that function is declared, service.each(source, timers=[...]), and nowhere else."
        raise StateMachineError(
            f"timer {self.name!r} is {done} {what}", epoch=self._epoch if self._thread else None, remedy=remedy
        )

    def _checked(self, at: Any, key: Any) -> int:
        at_ms = whole_ms(at)
        if at_ms is None:
            what = f"at={described(at, 100)}, which is no whole number of milliseconds of the years 1 to 9999"
            raise self._no_time(what, key)
        return at_ms

    def _later(self, after: Any, key: Any) -> int:
        if not is_length(after, 0.0, LENGTH_MAX_S):
            what = f"after={described(after, 100)}, which is no number of seconds from 0 to {LENGTH_MAX_S:g}"
            raise self._no_time(what, key)
        from_ms = self._now_ms if self.by == CLOCK else self._event_ms
        if from_ms is None:
            raise ConfigurationError(
                f"timer {self.name!r} is set after {float(after):g} s, and there is no event with a time at hand",
                remedy="say the time, set(key, at=...), or where events have theirs: service.read(source, time=...).",
            )
        at_ms = from_ms + round(after * 1000)
        if not TIME_MIN_MS <= at_ms <= TIME_MAX_MS:
            raise self._no_time(f"after={described(after, 100)}, which leads out of the years 1 to 9999", key)
        return int(at_ms)

    def _no_time(self, what: str, key: Any) -> DataError:
        return DataError(
            f"timer {self.name!r} is set for the key {described(key, 100)} with {what}",
            remedy="give at= as an int (round(value.timestamp() * 1000) of a datetime), or after=tpc.seconds(...).",
        )


def _decoded(key: bytes) -> Any:
    return decode(VERSION + key[1:])
