"""A state as a function sees it: a mapping of any Python values, one epoch at a time.

What a function gets is decoded for the epoch and belongs to it: it may be changed in place, by the call that got it.
At the cut every entry that was handed out or written is encoded and compared with what was there, so that a change in
place is noticed and what was only read costs no row. The next epoch decodes again: a function sees the same objects,
and iterates over them in the same order, whether there was a restart in between or not.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, MutableMapping
from threading import get_ident
from typing import Any

from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.codec import decode, encode_key
from tpc.coordinator.service.state.epoch_state import EpochState
from tpc.coordinator.service.state.keys import EXACT, canonical
from tpc.coordinator.service.state.one_event import OneEvent
from tpc.coordinator.service.state.refusals import refuse_access
from tpc.coordinator.service.state.touched import GONE, Touched, end_of

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
        return touched.value if self.ttl_ms is None else touched.handed(self._now_ms(), self.ttl_ms)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of those of these keys that are there, asked of a store on disk at once. 1 and True are one."""
        self._enter()
        wanted = [(key, self._code(key)) for key in keys]
        held = self._contents.get_all({code for _, code in wanted if code not in self._touched})
        found = {}
        for key, code in wanted:
            touched = self._touched.get(code) or self._read(key, code, held.get(code))
            if touched is not None and touched.value is not GONE:
                found[key] = touched.value if self.ttl_ms is None else touched.handed(self._now_ms(), self.ttl_ms)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        if get_ident() != self._thread or self._is_due:
            self._enter()
        touched = self._named.get(key) if type(key) is str else None
        if touched is not None and touched.value is not GONE:  # no order of keys changes
            if self.ttl_ms is not None and touched.live_on(self._now_ms(), self.ttl_ms):
                self._ends.add(touched.ends_ms, self._code(key))
            touched.value, touched.is_written = value, True
            return
        encoded = self._code(key)
        if self._first is not None and not self._has(encoded):
            heapq.heappush(self._first, encoded)
        self._touch(key, encoded, Touched(value, True) if self.ttl_ms is None else self._written(encoded, value))

    def __delitem__(self, key: Any) -> None:
        self._enter()
        encoded = self._code(key)
        if not self._has(encoded):
            raise KeyError(key)
        self._touch(key, encoded, Touched(GONE, True))

    def clear(self) -> None:
        """No key is left; all keys are gone through once."""
        self._enter()
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
            refuse_access(self.name, self.epoch, is_cut=self._cut is not None, is_running=self._thread != 0)
        if self._is_due:
            self._expire(self.watermark_ms)

    def _code(self, key: Any) -> bytes:
        """The bytes of a key, the same for all keys of one type that are equal.

        What an earlier version has stored of a key as it was spelled stays a key of its own, found by its spelling.
        """
        kind = type(key)
        if kind is str or kind in EXACT or (one := canonical(key)) is key:
            return encode_key(key)
        spelled = encode_key(key)
        return spelled if self._has(spelled) else encode_key(one)

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
