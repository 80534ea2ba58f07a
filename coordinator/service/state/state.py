"""A state as a function sees it: a mapping of any Python values, one epoch at a time.

What a function gets is decoded for the epoch and belongs to it: it may be changed in place, by the call that got it. At
the cut every entry that was handed out or written is encoded and compared with what was there, so that a change in
place is noticed and what was only read costs no row. The next epoch decodes again: a function sees the same objects,
and iterates over them in the same order, whether there was a restart in between or not.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from threading import get_ident
from typing import Any, NoReturn
from uuid import UUID

from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.codec import decode, encode_key
from tpc.coordinator.service.state.epoch_state import EpochState
from tpc.coordinator.service.state.one_event import OneEvent
from tpc.coordinator.service.state.touched_entries import GONE, Touched, end_of, of_key
from tpc.describing import described
from tpc.errors import DataError, StateMachineError

_SURROGATE = rb"\ud"


class State(EpochState, MutableMapping[Any, Any]):
    """What `service.state` returns, for the functions of the service; see `EpochState` for its epochs.

    Every access from another thread than that of the running epoch, or outside of an epoch, raises `StateMachineError`.
    """

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, GONE)
        if found is GONE:
            raise KeyError(key)
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or what is to stand for it where it is not there."""
        if get_ident() != self._thread or self._is_due:
            self._enter()
        touched = (self._named.get(key) if type(key) is str else None) or self._found(key)
        if touched is None or touched.value is GONE:
            return default
        return touched.value if self.ttl_ms is None else self._handed(key, touched)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of those of these keys that are there, asked of a store on disk at once. 1 and True are one."""
        self._enter()
        wanted = [(key, self._code(key)) for key in keys]
        held = self._contents.get_all({code for _, code in wanted if code not in self._touched})
        found = {}
        for key, code in wanted:
            touched = self._touched.get(code) or self._read(key, code, held.get(code))
            if touched is not None and touched.value is not GONE:
                found[key] = touched.value if self.ttl_ms is None else self._handed(key, touched)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        if get_ident() != self._thread or self._is_due:
            self._enter()
        touched = self._named.get(key) if type(key) is str else None
        if touched is not None and touched.value is not GONE:  # no order of keys changes
            if self._notices_unkept:
                self._goes(self._code(key), touched)
            if self.ttl_ms is not None and touched.live_on(self._now_ms(), self.ttl_ms):
                self._ends.add(touched.ends_ms, self._code(key))
            touched.value, touched.is_written = value, True
            return
        encoded = self._code(key)
        if self._notices_unkept:
            self._goes(encoded, self._touched.get(encoded))
        if self._first is not None and not self._has(encoded):
            heapq.heappush(self._first, encoded)
        self._touch(key, encoded, Touched(value, True) if self.ttl_ms is None else self._written(encoded, value))

    def __delitem__(self, key: Any) -> None:
        self._enter()
        encoded = self._code(key)
        if not self._has(encoded):
            raise KeyError(key)
        if self._notices_unkept:
            self._goes(encoded, self._touched.get(encoded))
        self._touch(key, encoded, Touched(GONE, True))

    def clear(self) -> None:
        """No key is left; all keys are gone through once."""
        self._enter()
        if self._notices_unkept:
            for key, touched in self._touched.items():
                self._goes(key, touched)
        cleared = {key: Touched(GONE, True) for key in self._contents.sorted_keys()}
        self._touched = cleared if self._of_epoch is None else OneEvent(cleared)
        self._named = {}

    def popitem(self) -> tuple[Any, Any]:
        """The first key in the order of the keys' bytes, and its value. An epoch's first call goes through all keys."""
        self._enter()
        if self._first is None:
            self._first = self._sorted_keys()
        while self._first:
            first = heapq.heappop(self._first)
            if self._has(first):
                key = decode(first)
                return key, self.pop(key)
        raise KeyError(f"the state {self.name} is empty")

    def __contains__(self, key: object) -> bool:
        self._enter()
        return self._has(self._code(key))

    def __iter__(self) -> Iterator[Any]:
        """In the order of the keys' bytes; all keys are gone through."""
        self._enter()
        return map(decode, self._sorted_keys())

    def __len__(self) -> int:
        self._enter()
        live = sum(touched.value is not GONE for touched in self._touched.values())
        return len(self._contents) + live - len(self._contents.get_all(self._touched))

    def __repr__(self) -> str:
        return f"State({self.name!r}, epoch {self.epoch})"

    def _enter(self) -> None:
        """Before anything is read or written."""
        if get_ident() != self._thread:
            refuse_access(self.name, self.epoch, is_cut=self._taken is not None, is_running=self._thread != 0)
        if self._is_due:
            self._expire(self.watermark_ms)

    def _code(self, key: Any) -> bytes:
        """The bytes of a key, the same for all keys of one type that are equal.

        What an earlier version has stored of a key as it was spelled stays a key of its own, found by its spelling.
        """
        kind = type(key)
        try:
            if kind is str or kind in EXACT or (one := canonical(key)) is key:
                return encode_key(key)
            spelled = encode_key(key)
            return spelled if self._has(spelled) else encode_key(one)
        except DataError as error:
            error.what = f"state {self.name!r}, key {described(key, 60)}: {error.what}"
            error.key, error.args = described(key, 60), (error.what,)
            raise

    def _handed(self, key: Any, touched: Touched) -> Any:
        """Its value, of a state whose entries have a time to live. Raises `UnkeptValueError` with the state and key."""
        assert self.ttl_ms is not None
        if self._notices_unkept:  # the user's function may catch what it is told now
            self._goes(self._code(key), touched)
        try:
            return touched.handed(self._now_ms(), self.ttl_ms)
        except DataError as error:
            raise of_key(error, self.name, self._code(key))  # noqa: B904  it is the same error

    def _written(self, key: bytes, value: Any) -> Touched:
        """A key that has a time to live is written: it lives at least as long as it would have."""
        now_ms, prior = self._now_ms(), self._touched.get(key)
        if prior is None or prior.value is GONE:
            touched = Touched(value, True, end_of(now_ms, self.ttl_ms), is_new=prior is not None)
            self._ends.add(touched.ends_ms, key)
            return touched
        if self.ttl_ms is not None and prior.live_on(now_ms, self.ttl_ms):
            self._ends.add(prior.ends_ms, key)
        prior.value, prior.is_written = value, True
        return prior

    def _found(self, key: Any) -> Touched | None:
        """What the epoch has of a key that it has not named yet; None where there is none."""
        encoded = self._code(key)
        touched = self._touched.get(encoded)
        if touched is None:
            return self._read(key, encoded, self._contents.get(encoded))
        self._touch(key, encoded, touched)
        return touched

    def _read(self, key: Any, encoded: bytes, held: Change | None) -> Touched | None:
        """What the store holds is touched by being read."""
        if held is None or held.value is None:
            return None
        touched = Touched(decode(held.value), False, held.expires_ms, held=held)
        if self.ttl_ms is not None:
            touched.seen, touched.handed_ms = held.value, self._now_ms()
        self._touch(key, encoded, touched)
        return touched

    def _touch(self, key: Any, encoded: bytes, touched: Touched) -> None:
        self._touched[encoded] = touched
        # Not 1, which is equal to True and to 1.0; and no text that has other bytes than its own: two surrogates are
        # those of the character that they would be together.
        if type(key) is str and _SURROGATE not in encoded:
            self._named[key] = touched

    def _sorted_keys(self) -> list[bytes]:
        held = [key for key in self._contents.sorted_keys() if key not in self._touched]
        live = [key for key, touched in self._touched.items() if touched.value is not GONE]
        return sorted(held + live)

    def _has(self, key: bytes) -> bool:
        touched = self._touched.get(key)
        return self._contents.get(key) is not None if touched is None else touched.value is not GONE

    def _now_ms(self) -> int | None:
        return self.watermark_ms if self.event_ms is None else self.event_ms


# Which keys of a state are one: those of one type that Python holds for equal, whatever their spelling.
#
# `0.0` and `-0.0`, `Decimal("1.0")` and `Decimal("1.00")`, one instant in two zones, also within tuples and frozensets.
# Keys of different types are different keys, also where Python holds them for equal: `1`, `1.0` and `True`.

EXACT = frozenset((str, int, bool, type(None), bytes, UUID, date, timedelta))
"""Types whose equal values have one spelling."""
_EAST = timezone(timedelta(days=1) - timedelta(microseconds=1))
"""Where it is latest: every instant that a datetime can be has a date there, if it has none in UTC."""


def canonical(key: Any) -> Any:
    """What stands for all keys that are equal to this one and of its type; the key itself where it is that already."""
    of_kind = _CANONICAL.get(type(key))
    return key if of_kind is None else of_kind(key)


def _float(key: float) -> float:
    return 0.0 if key == 0.0 and str(key) != "0.0" else key


def _decimal(key: Decimal) -> Decimal:
    """Without zeros at its end. Not `normalize`, which rounds to the context's precision."""
    if not key.is_finite():
        return key
    sign, digits, exponent = key.as_tuple()
    assert isinstance(exponent, int)
    significant = len("".join(map(str, digits)).rstrip("0"))
    if not significant:
        made = Decimal(0)
    else:
        made = Decimal((sign, digits[:significant], exponent + len(digits) - significant))
    return key if str(made) == str(key) else made


def _datetime(key: datetime) -> datetime:
    if key.utcoffset() is None:
        return key
    try:
        made = key.astimezone(timezone.utc)
    except OverflowError:  # before the year 1 in UTC, or after 9999
        made = _at(key, _EAST if key.year == datetime.min.year else timezone(-_EAST.utcoffset(None)))
    return key if made.isoformat() == key.isoformat() else made


def _at(key: datetime, zone: timezone) -> datetime:
    """The instant in a zone, without UTC in between."""
    moved = zone.utcoffset(None) - (key.utcoffset() or timedelta(0))
    return (key.replace(tzinfo=None) + moved).replace(tzinfo=zone)


def _tuple(key: tuple[Any, ...]) -> tuple[Any, ...]:
    if EXACT.issuperset(map(type, key)):
        return key
    made = [canonical(each) for each in key]
    return key if all(one is other for one, other in zip(made, key, strict=True)) else tuple(made)


def _list(key: list[Any]) -> list[Any]:
    made = [canonical(each) for each in key]
    return key if all(one is other for one, other in zip(made, key, strict=True)) else made


def _set(key: set[Any] | frozenset[Any]) -> set[Any] | frozenset[Any]:
    pairs = [(each, canonical(each)) for each in key]
    return key if all(one is other for one, other in pairs) else type(key)(made for _, made in pairs)


def _dict(key: dict[Any, Any]) -> dict[Any, Any]:
    return {canonical(name): canonical(value) for name, value in key.items()}


_CANONICAL: Mapping[type, Callable[[Any], Any]] = {
    float: _float,
    Decimal: _decimal,
    datetime: _datetime,
    tuple: _tuple,
    list: _list,
    set: _set,
    frozenset: _set,
    dict: _dict,
}


# What a state refuses: an access, which is an epoch's and its thread's, and a value that it finds.

_ELSEWHERE = (
    "use the state in the functions of the service only, in the thread that calls them. What another thread is to see "
    "let a function write: as a row to a sink, or at the end of an epoch (service.at_cut) as a copy into a variable."
)
_BEFORE = (
    "write it in a function of the service, at the first event, say: `if not state: state.update(...)`. What is to be "
    "seen from outside let a function write to a sink, or copy into a variable (service.at_cut)."
)


def refuse_access(name: str, epoch: int, *, is_cut: bool, is_running: bool) -> NoReturn:
    """Raises `StateMachineError`, which says who has access to the state."""
    if is_running:
        thread = threading.current_thread().name
        what = f"state {name}: the thread {thread!r} uses it, and epoch {epoch} runs in another"
        raise StateMachineError(what, epoch=epoch, remedy=_ELSEWHERE)
    if is_cut:
        what = f"state {name}: epoch {epoch} is cut, and something uses it still"
        raise StateMachineError(what, epoch=epoch, remedy=_BEFORE)
    raise StateMachineError(f"state {name}: it is used outside of an epoch, where nothing is kept", remedy=_BEFORE)
