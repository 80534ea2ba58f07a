"""A state as a function sees it: a mapping of any Python values, one epoch at a time.

What a function gets is decoded for the epoch and belongs to it: it may be changed in place. At the cut every entry that
was handed out or written is encoded and compared with what was there, so that a change in place is noticed and what was
only read costs no row. An epoch costs what it touched, not what the state holds. The next epoch decodes anew: a
function sees the same objects, and iterates over them in the same order, whether there was a restart in between or not.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any

import pyarrow

from tpc.coordinator.loop.state.changelog_rows import changelog_rows
from tpc.coordinator.loop.state.changes import Change, to_batch
from tpc.coordinator.loop.state.codec import decode, encode
from tpc.coordinator.loop.state.contents import Contents
from tpc.coordinator.loop.state.one_event import UndoesOneEvent
from tpc.coordinator.loop.state.rules import NO_EPOCH
from tpc.coordinator.loop.state.touched import GONE, Touched
from tpc.errors import ConfigurationError, StateMachineError
from tpc.json import JSONObject

OBJECT_KEY = b"\x02object"
"""The only key of a store that holds a whole object (`kept.py`): no key of a state begins with this byte."""
_SURROGATE = rb"\ud"


class State(UndoesOneEvent, MutableMapping[Any, Any]):
    """The state `name`. The runtime calls `restore`, `begin`, `changes` and `abandon`; a function, the mapping.

    With `ttl_s` an entry expires so long after the event in which it was last changed, as soon as the watermark passes.
    """

    def __init__(self, name: str, contents: Contents, ttl_s: float | None = None) -> None:
        if ttl_s is not None and ttl_s <= 0:
            raise ConfigurationError(f"the state {name} has a time to live of {ttl_s} s", remedy="give a positive one.")
        self.name = name
        self.ttl_ms = None if ttl_s is None else round(ttl_s * 1000)
        self.epoch = NO_EPOCH
        """The epoch that runs, or ran last."""
        self.watermark_ms: int | None = None
        self.event_ms: int | None = None
        """The event time of the event at hand, set by the runtime; where it is None the watermark stands for it."""
        self._contents = contents
        self._touched: MutableMapping[bytes, Touched] = {}
        self._named: dict[str, Touched] = {}
        """What is touched, by keys that are text, as most are: an epoch names a key more than once."""
        self._first: list[bytes] | None = None
        """A heap in which all live keys are, and others; made by the epoch's first `popitem`."""
        self._cut: dict[bytes, Change] | None = None
        self._added = 0
        """How many keys more there are after the cut."""

    # For the runtime ------------------------------------------------------------------------------------------

    @property
    def rests_on(self) -> int:
        """The epoch after which the content was as the running one finds it: the last that changed it, -1 for none."""
        return self._contents.epoch

    def restore(self, *, before: int | None = None) -> None:
        """Read the content from the store, as it is; or as it was before an epoch that is decided and not complete."""
        self._contents.restore(before)
        if self._contents.get(OBJECT_KEY) is not None:
            raise ConfigurationError(
                f"the store of {self.name!r} holds a whole object, and no state of keys",
                sink=self.name,
                remedy="read it with service.keep, or give the state a name of its own.",
            )
        self._forget()
        self.watermark_ms = self.event_ms = None
        self.epoch = self.rests_on

    def begin(self, epoch: int, watermark_ms: int | None = None) -> None:
        """Begin an epoch; the one before it, if it was cut, is decided. What has expired at the watermark is gone."""
        if self._cut is None and self._touched:
            raise StateMachineError(f"state {self.name}: epoch {self.epoch} was neither cut nor abandoned", epoch=epoch)
        if self._cut:
            self._contents.fold(self.epoch, self._cut, self._added)
        self._forget()
        self.epoch, self.event_ms = epoch, None
        if watermark_ms is not None:
            self.watermark_ms = watermark_ms
            self._touched = {key: Touched(GONE, True, None) for key in self._contents.due(watermark_ms)}

    def changes(self) -> pyarrow.RecordBatch:
        """The cut: what the epoch has changed, for the state's branch. The same when it is asked again.

        Raises `DataError` for a value that cannot be kept; nothing is changed by that.
        """
        if self._cut is None:
            cut, added = dict[bytes, Change](), 0
            touched = self._touched
            others = self._contents.get_all([key for key, each in touched.items() if each.held is None])
            for key in sorted(touched):
                before = touched[key].held or others.get(key)
                change = touched[key].became(key, before, self._expires_ms)
                if change is not None:
                    cut[key] = change
                    added += (change.value is not None) - (before is not None)
            self._cut, self._added = cut, added
        return to_batch(self._cut.values(), self.rests_on)

    def logged(self, position: JSONObject | None) -> list[pyarrow.RecordBatch]:
        """The same for the state's changelog, which stands at `position`; None: all that the state holds."""
        return list(changelog_rows(self._contents, self._cut or {}, position))

    def abandon(self) -> None:
        """The epoch is aborted: back to where it began. The next call is `begin`."""
        self._forget()

    def close(self) -> None:
        """Let go of the store; `restore` opens it again."""
        self._contents.store.close()

    def _forget(self) -> None:
        """Nothing is touched."""
        self._touched, self._named, self._first, self._cut = {}, {}, None, None

    def _expires_ms(self, changed_ms: int | None) -> int | None:
        if self.ttl_ms is None:
            return None
        if changed_ms is None:
            raise ConfigurationError(
                f"the state {self.name} has a time to live, and its events have no time",
                remedy="say where it stands, service.read(source, time=...), or give the state no ttl.",
            )
        return changed_ms + self.ttl_ms

    # The mapping ----------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, GONE)
        if found is GONE:
            raise KeyError(key)
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a key, or what is to stand for it where it is not there."""
        touched = (self._named.get(key) if type(key) is str else None) or self._found(key)
        if touched is None or touched.value is GONE:
            return default
        return touched.value if self.ttl_ms is None else touched.read_at(self._now_ms())

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of those of these keys that are there, asked of a store on disk at once. 1 and True are one."""
        wanted = [(key, encode(key, "key")) for key in keys]
        held = self._contents.get_all({code for _, code in wanted if code not in self._touched})
        found = {}
        for key, code in wanted:
            touched = self._touched.get(code) or self._read(key, code, held.get(code))
            if touched is not None and touched.value is not GONE:
                found[key] = touched.value if self.ttl_ms is None else touched.read_at(self._now_ms())
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._cut is not None:
            self._running()
        touched = self._named.get(key) if type(key) is str and self.ttl_ms is None else None
        if touched is not None and touched.value is not GONE:  # no time of it matters, and no order of keys changes
            touched.value, touched.is_written = value, True
            return
        encoded = encode(key, "key")
        if self._first is not None and not self._has(encoded):
            heapq.heappush(self._first, encoded)
        self._touch(key, encoded, Touched(value, True, None if self.ttl_ms is None else self._now_ms()))

    def __delitem__(self, key: Any) -> None:
        self._running()
        encoded = encode(key, "key")
        if not self._has(encoded):
            raise KeyError(key)
        self._touch(key, encoded, Touched(GONE, True, None))

    def clear(self) -> None:
        """No key is left; all keys are gone through once."""
        self._running()
        self._touched = {key: Touched(GONE, True, None) for key in self._contents.sorted_keys()}
        self._named = {}

    def popitem(self) -> tuple[Any, Any]:
        """The first key in the order of the keys' bytes, and its value. An epoch's first call goes through all keys."""
        self._running()
        if self._first is None:
            self._first = self._sorted_keys()
        while self._first:
            first = heapq.heappop(self._first)
            if self._has(first):
                key = decode(first)
                return key, self.pop(key)
        raise KeyError(f"the state {self.name} is empty")

    def __contains__(self, key: object) -> bool:
        return self._has(encode(key, "key"))

    def __iter__(self) -> Iterator[Any]:
        """In the order of the keys' bytes; all keys are gone through."""
        return map(decode, self._sorted_keys())

    def __len__(self) -> int:
        if self._cut is not None:  # the store, which may have compacted the epoch, could no longer tell
            return len(self._contents) + self._added
        live = sum(touched.value is not GONE for touched in self._touched.values())
        return len(self._contents) + live - len(self._contents.get_all(self._touched))

    def __repr__(self) -> str:
        return f"State({self.name!r}, epoch {self.epoch}, {len(self)} keys)"

    def _found(self, key: Any) -> Touched | None:
        """What the epoch has of a key that it has not named yet; None where there is none."""
        encoded = encode(key, "key")
        touched = self._touched.get(encoded)
        if touched is None:
            return self._read(key, encoded, self._contents.get(encoded))
        self._touch(key, encoded, touched)
        return touched

    def _read(self, key: Any, encoded: bytes, held: Change | None) -> Touched | None:
        """What the store holds is touched by being read."""
        if held is None or held.value is None:
            return None
        self._touch(key, encoded, touched := Touched(decode(held.value), False, None, held=held))
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

    def _running(self) -> None:
        if self._cut is not None:
            raise StateMachineError(f"state {self.name}: epoch {self.epoch} is cut, and something changes it still")

    def _now_ms(self) -> int | None:
        return self.watermark_ms if self.event_ms is None else self.event_ms
