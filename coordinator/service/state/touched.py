"""What an epoch has touched of a state: entries that it has read or written, and until when each lives.

Entries end by event time. What one event touches is kept apart until it is known whether the event is refused.
"""

from __future__ import annotations

import heapq
from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.codec import decode, encode
from tpc.errors import DataError
from tpc.event_time import later
from tpc.user_code import UnkeptValueError

GONE = object()
"""The value of a key that is not there any more."""
FIXED = frozenset((int, str, float, bytes, bool, type(None), Decimal, UUID, date, datetime, timedelta))
"""What cannot be changed in place."""


@dataclass(slots=True)
class Touched:
    """Its value, and the end of its life, which never goes back: a late event does not shorten it.

    `held` is what was there before the epoch, where that was read; None where it was not. `is_new`: its life began in
    this epoch, so that the end of what was there before it does not matter.

    A value that can be changed in place is encoded when it is handed out: `seen` is how it was then, at the event time
    `handed_ms`. When it is handed out for another event, and at the cut, it is compared with that. So the time of a
    change is that of the event which made it, wherever epochs are cut.
    """

    value: Any
    is_written: bool
    ends_ms: int | None = None
    is_new: bool = False
    held: Change | None = None
    seen: bytes | None = None
    handed_ms: int | None = None

    def handed(self, now_ms: int | None, ttl_ms: int) -> Any:
        """Its value, handed out to the event at hand, of a state whose entries have a time to live."""
        if type(self.value) not in FIXED and (self.seen is None or now_ms != self.handed_ms):
            encoded = left(self.value)
            self.settle(encoded, ttl_ms)
            self.seen, self.handed_ms = encoded, now_ms
        return self.value

    def live_on(self, now_ms: int | None, ttl_ms: int) -> bool:
        """It is written at this time: it lives at least as long as it would have. Whether it had no end before."""
        if self.seen is not None:
            if now_ms != self.handed_ms:
                self.settle(left(self.value), ttl_ms)
            self.seen = None
        had_none = self.ends_ms is None
        if now_ms is not None and (self.ends_ms is None or now_ms + ttl_ms > self.ends_ms):
            self.ends_ms = now_ms + ttl_ms
        return had_none

    def settle(self, value: bytes, ttl_ms: int | None) -> None:
        """Its value is these bytes now: where they are others than were handed out, it lives on from that event."""
        if self.seen is not None and value != self.seen:
            self.seen = value
            self.ends_ms = later(self.ends_ms, end_of(self.handed_ms, ttl_ms))

    def end(self, before: Change | None, ttl_ms: int | None) -> int | None:
        """The end of its life, given what was there before the epoch. What was changed in place is settled first."""
        if self.seen is not None and self.value is not GONE:
            self.settle(left(self.value), ttl_ms)
        return self.ends_ms if self.is_new or before is None else later(self.ends_ms, before.expires_ms)

    def expire(self) -> None:
        """Its life has ended."""
        self.value, self.is_written, self.ends_ms, self.seen = GONE, True, None, None

    def became(self, key: bytes, before: Change | None, ttl_ms: int | None) -> Change | None:
        """What the epoch has made of it, given what was there; None: it is as it was."""
        if self.value is GONE:
            return None if before is None else Change(key, None, None)
        value = encode(self.value)
        if not self.is_written and before is not None and value == before.value:
            return None
        change = Change(key, value, None if ttl_ms is None else self.end(before, ttl_ms))
        return None if change == before else change


def end_of(written_ms: int | None, ttl_ms: int | None) -> int | None:
    """The end of the life of what is written at an event time."""
    return None if written_ms is None or ttl_ms is None else written_ms + ttl_ms


def left(value: Any) -> bytes:
    """The bytes of a value as an event has left it. Raises `UnkeptValueError`."""
    try:
        return encode(value)
    except DataError as error:
        raise UnkeptValueError(error.what, column=error.column, remedy=error.remedy) from error


class Ends:
    """Those up to `upto_ms`, the watermark that the epoch reaches. Each may live longer meanwhile, or be gone."""

    def __init__(self, upto_ms: int | None, due: Iterable[tuple[int, bytes]]) -> None:
        self._upto_ms = upto_ms
        self._heap = list(due)
        heapq.heapify(self._heap)

    def add(self, end_ms: int | None, key: bytes) -> None:
        """A key ends then."""
        if end_ms is not None and self._upto_ms is not None and end_ms <= self._upto_ms:
            heapq.heappush(self._heap, (end_ms, key))

    def apart(self) -> Ends:
        """For what one event adds: only `take_over` adds it here."""
        return Ends(self._upto_ms, ())

    def take_over(self, other: Ends) -> None:
        """What was added apart."""
        for end in other._heap:
            heapq.heappush(self._heap, end)

    def is_due(self, watermark_ms: int) -> bool:
        """Whether one of them may have ended by then."""
        return bool(self._heap) and self._heap[0][0] <= watermark_ms

    def take(self, watermark_ms: int) -> Iterator[bytes]:
        """The keys that may have ended by then, each once for each time it was added."""
        while self.is_due(watermark_ms):
            yield heapq.heappop(self._heap)[1]


NONE = Ends(None, ())


# What one event reads and writes of a state, apart from the rest until it is known whether the event is refused.
#
# The event works on copies, also of values that it changes in place; what they were copied from does not change,
# whatever the outcome. A copy is what an epoch after this one would decode.


class OneEvent(MutableMapping[bytes, Touched]):
    """What an epoch has touched, `below`, and over it what one event touches."""

    def __init__(self, below: MutableMapping[bytes, Touched]) -> None:
        self.below = below
        self._own: dict[bytes, Touched] = {}

    def __getitem__(self, key: bytes) -> Touched:
        own = self._own.get(key)
        if own is None:
            own = self._own[key] = _copy(self.below[key])
        return own

    def __setitem__(self, key: bytes, touched: Touched) -> None:
        self._own[key] = touched

    def __delitem__(self, key: bytes) -> None:
        raise NotImplementedError("what is touched stays so until the epoch ends")

    def __contains__(self, key: object) -> bool:
        return key in self._own or key in self.below

    def __iter__(self) -> Iterator[bytes]:
        yield from self.below
        yield from (key for key in self._own if key not in self.below)

    def __len__(self) -> int:
        return len(self.below) + sum(key not in self.below for key in self._own)

    def values(self) -> ValuesView[Touched]:
        """To be looked at, and not to be handed out: there are no copies."""
        return {**self.below, **self._own}.values()

    def items(self) -> ItemsView[bytes, Touched]:
        """As `values`."""
        return {**self.below, **self._own}.items()

    def check(self) -> None:
        """Raise `UnkeptValueError` for a value of the event's that cannot be kept."""
        _check(self._own)

    def keep(self) -> MutableMapping[bytes, Touched]:
        """What the epoch has touched with this event."""
        self.below.update(self._own)
        return self.below


def _copy(touched: Touched) -> Touched:
    is_fixed = touched.value is GONE or type(touched.value) in FIXED
    return replace(touched, value=touched.value if is_fixed else decode(left(touched.value)))


def _check(entries: Mapping[bytes, Touched]) -> None:
    for touched in entries.values():
        if touched.value is not GONE:
            left(touched.value)


class UndoesOneEvent:
    """The part of a state that keeps what one event changes, or undoes it.

    What has ended by the watermark before the event is no change of the event's: it is taken from the epoch's part.
    """

    _touched: MutableMapping[bytes, Touched]
    _named: dict[str, Touched]
    _first: list[bytes] | None
    _ends: Ends
    _of_epoch: tuple[MutableMapping[bytes, Touched], Ends] | None = None
    """What is touched, and what ends, without the event at hand; None while no event can be undone."""

    def begin_event(self) -> None:
        """What changes from here on is of one event, until `end_event`."""
        self._of_epoch = self._touched, self._ends
        self._touched, self._named, self._ends = OneEvent(self._touched), {}, self._ends.apart()

    def check_event(self) -> None:
        """Raise `UnkeptValueError` for a value that the event has left and that cannot be kept.

        Where no event is at hand: that what was before it has left.
        """
        if isinstance(self._touched, OneEvent):
            self._touched.check()
        else:
            _check(self._touched)

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what has changed since `begin_event`, or undo it."""
        if self._of_epoch is None:
            return
        touched, ends = self._of_epoch
        if is_kept:
            ends.take_over(self._ends)
            touched = self._touched.keep() if isinstance(self._touched, OneEvent) else self._touched
        else:
            self._first = None
        self._touched, self._named, self._ends, self._of_epoch = touched, {}, ends, None
