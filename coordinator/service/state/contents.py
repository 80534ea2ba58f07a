"""What a state held before the running epoch: all of it in memory, or on disk with a part of it in memory.

Both are the content after one epoch, in bytes; `fold` takes them to the next. Neither decides anything.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice

from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.rules import NO_EPOCH
from tpc.coordinator.service.state.store import Store, put

_STALE_MIN = 1_000
"""So many entries that are no longer true are no reason to go through those that are."""
_UNKNOWN = Change(b"", None, None)


class Contents(ABC):
    """The content after the epoch `epoch`, the last one that changed it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.epoch = NO_EPOCH

    @abstractmethod
    def restore(self, before: int | None) -> None:
        """Take what the store has applied, or what it had before an epoch that is not complete."""

    @abstractmethod
    def fold(self, epoch: int, changes: dict[bytes, Change], added: int) -> None:
        """Go on to the content after `epoch`, which is decided and changed these keys, at least one.

        There are `added` keys more then; the store, which may have applied the epoch, could no longer tell.
        """

    @abstractmethod
    def get(self, key: bytes) -> Change | None:
        """A key as it was."""

    @abstractmethod
    def get_all(self, keys: Iterable[bytes]) -> dict[bytes, Change]:
        """Those of these keys that were there."""

    @abstractmethod
    def sorted_keys(self) -> Iterator[bytes]:
        """All keys in the order of their bytes, the same after a restart."""

    def entries(self) -> Iterator[Change]:
        """All of it, in the order of the keys' bytes."""
        for key in self.sorted_keys():
            held = self.get(key)
            if held is not None:
                yield held

    @abstractmethod
    def due(self, watermark_ms: int) -> list[tuple[int, bytes]]:
        """When those keys end that do at this event time or earlier, the first ones first."""

    @abstractmethod
    def first_end(self, without: Container[bytes]) -> int | None:
        """When the first of the other keys ends that do; None where none does."""

    @abstractmethod
    def some(self) -> Iterator[Change]:
        """Entries in any order, of which the first costs nothing."""

    @abstractmethod
    def __len__(self) -> int:
        """How many keys there are."""


class _Ends:
    """When keys end, the first at hand. What is in it may have been changed or gone since: `held` tells how it is now.

    At most about as much as what is true.
    """

    def __init__(self, held: Callable[[bytes], int | None]) -> None:
        self._held = held
        self._heap: list[tuple[int, bytes]] = []
        self._passed: list[tuple[int, bytes]] = []
        """In order: what was looked at, and is not pushed back into a heap in which so much more waits."""

    def __len__(self) -> int:
        return len(self._heap) + len(self._passed)

    def reset(self, ends: Iterable[tuple[int, bytes]]) -> None:
        """These and no others."""
        self._heap, self._passed = list(ends), []
        heapq.heapify(self._heap)

    def add(self, at_ms: int, key: bytes) -> None:
        """A key ends then."""
        heapq.heappush(self._heap, (at_ms, key))

    def due(self, upto_ms: int) -> list[tuple[int, bytes]]:
        """The keys that end by then, the first ones first; they stay until an epoch has taken them away."""
        due = {(at_ms, key) for at_ms, key in self._passed if self._held(key) == at_ms}
        while self._heap and self._heap[0][0] <= upto_ms:
            at_ms, key = heapq.heappop(self._heap)
            if self._held(key) == at_ms:
                due.add((at_ms, key))
        self._passed = sorted(due)  # the epoch may be aborted, and another one has to find them again
        return [each for each in self._passed if each[0] <= upto_ms]

    def first(self, without: Container[bytes]) -> int | None:
        """When the first of the other keys ends."""
        passed = (at_ms for at_ms, key in self._passed if key not in without and self._held(key) == at_ms)
        first, of_others = next(passed, None), len(self._passed)
        while self._heap and (first is None or self._heap[0][0] < first):
            at_ms, key = self._heap[0]
            if self._held(key) != at_ms:
                heapq.heappop(self._heap)
            elif key in without:
                self._passed.append(heapq.heappop(self._heap))
            else:
                first = at_ms
        if len(self._passed) > of_others:
            self._passed.sort()
        return first


class MemoryContents(Contents):
    """All of it; values stay bytes until somebody asks for them, so that a million keys are there in a moment.

    Bytes by bytes, and no object for each key: those the garbage collector would look through again and again, a third
    of a second for a million.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._values: dict[bytes, bytes] = {}
        self._expires_ms: dict[bytes, int] = {}
        """Of the keys that expire."""
        self._expiring = _Ends(self._expires_ms_of)

    def restore(self, before: int | None) -> None:
        """Read it whole."""
        self.epoch, self._values, self._expires_ms = self.store.load(before)
        self._list_expiring()

    def _list_expiring(self) -> None:
        self._expiring.reset((at, key) for key, at in self._expires_ms.items())

    def _expires_ms_of(self, key: bytes) -> int | None:
        return self._expires_ms.get(key)

    def fold(self, epoch: int, changes: dict[bytes, Change], added: int) -> None:
        """What changed, and nothing else, is touched."""
        self.epoch = epoch
        for key, change in changes.items():
            put(self._values, self._expires_ms, key, change)
            if change.expires_ms is not None:
                self._expiring.add(change.expires_ms, key)
        if len(self._expiring) > 2 * len(self._expires_ms) + _STALE_MIN:  # at most a step for each that was pushed
            self._list_expiring()

    def get(self, key: bytes) -> Change | None:
        """From memory."""
        value = self._values.get(key)
        return None if value is None else Change(key, value, self._expires_ms.get(key))

    def get_all(self, keys: Iterable[bytes]) -> dict[bytes, Change]:
        """From memory."""
        values, expires_ms = self._values, self._expires_ms
        return {key: Change(key, values[key], expires_ms.get(key)) for key in keys if key in values}

    def sorted_keys(self) -> Iterator[bytes]:
        """Sorted for who asks."""
        return iter(sorted(self._values))

    def due(self, watermark_ms: int) -> list[tuple[int, bytes]]:
        """From the heap."""
        return self._expiring.due(watermark_ms)

    def first_end(self, without: Container[bytes]) -> int | None:
        """From the heap."""
        return self._expiring.first(without)

    def some(self) -> Iterator[Change]:
        """As the dict has them."""
        return (Change(key, value, self._expires_ms.get(key)) for key, value in self._values.items())

    def __len__(self) -> int:
        return len(self._values)


class DiskContents(Contents):
    """Read from the store through a bounded cache. What is not in its entries yet lies over them."""

    def __init__(self, store: Store, cached_keys: int) -> None:
        super().__init__(store)
        self.cached_keys = cached_keys
        self._over: dict[bytes, tuple[int, Change]] = {}
        """Each with its epoch."""
        self._over_ends = _Ends(self._over_end_of)
        self._epochs: deque[tuple[int, list[bytes]]] = deque()
        """What each epoch has put over the entries."""
        self._cache: OrderedDict[bytes, Change | None] = OrderedDict()
        self._count = 0

    def restore(self, before: int | None) -> None:
        """Nothing is read but what lies over the entries, and their number."""
        self.epoch, self._over, self._count = self.store.over(before)
        self._cache.clear()
        self._list_over_ends()
        of_epochs: dict[int, list[bytes]] = {}
        for key, (epoch, _) in self._over.items():
            of_epochs.setdefault(epoch, []).append(key)
        self._epochs = deque(sorted(of_epochs.items()))

    def fold(self, epoch: int, changes: dict[bytes, Change], added: int) -> None:
        """Over the entries, until they have it themselves."""
        self._count += added
        self._epochs.append((epoch, list(changes)))
        for key, change in changes.items():
            self._over[key] = epoch, change
            if change.expires_ms is not None:
                self._over_ends.add(change.expires_ms, key)
            self._remember(key, change if change.value is not None else None)
        self.epoch = epoch
        compacted = self.store.compacted()
        while self._epochs and self._epochs[0][0] <= compacted:
            of, keys = self._epochs.popleft()
            for key in keys:
                if key in self._over and self._over[key][0] == of:
                    del self._over[key]
        if len(self._over_ends) > 2 * len(self._over) + _STALE_MIN:
            self._list_over_ends()

    def _list_over_ends(self) -> None:
        ends = ((change.expires_ms, key) for key, (_, change) in self._over.items())
        self._over_ends.reset((at, key) for at, key in ends if at is not None)

    def _over_end_of(self, key: bytes) -> int | None:
        over = self._over.get(key)
        return None if over is None else over[1].expires_ms

    def get(self, key: bytes) -> Change | None:
        """What lies over the store, the cache, the store."""
        held = self._known(key)
        if held is _UNKNOWN:
            held = self.store.get((key,)).get(key)
            self._remember(key, held)
        return held

    def get_all(self, keys: Iterable[bytes]) -> dict[bytes, Change]:
        """The same; the store is asked once for all that only it knows."""
        held = {key: self._known(key) for key in keys}
        unknown = [key for key, known in held.items() if known is _UNKNOWN]
        found = self.store.get(unknown)
        for key in unknown:
            held[key] = found.get(key)
            self._remember(key, held[key])
        return {key: change for key, change in held.items() if change is not None}

    def _known(self, key: bytes) -> Change | None:
        """What memory says of a key: `_UNKNOWN` where only the store can tell."""
        over = self._over.get(key)
        if over is not None:
            return over[1] if over[1].value is not None else None
        if key not in self._cache:
            return _UNKNOWN
        self._cache.move_to_end(key)
        return self._cache[key]

    def _remember(self, key: bytes, held: Change | None) -> None:
        self._cache[key] = held
        self._cache.move_to_end(key)
        if len(self._cache) > self.cached_keys:
            self._cache.popitem(last=False)

    def sorted_keys(self) -> Iterator[bytes]:
        """Merged from the store and what lies over it."""
        kept = (key for key in self.store.sorted_keys() if key not in self._over)
        return heapq.merge(kept, sorted(key for key, (_, change) in self._over.items() if change.value is not None))

    def due(self, watermark_ms: int) -> list[tuple[int, bytes]]:
        """By the store's index."""
        kept = [(at, key) for at, key in self.store.due(watermark_ms) if key not in self._over]
        return sorted([*kept, *self._over_ends.due(watermark_ms)])

    def first_end(self, without: Container[bytes]) -> int | None:
        """By the store's index."""
        kept = (at for at, key in self.store.ends() if key not in self._over and key not in without)
        return min((at for at in (next(kept, None), self._over_ends.first(without)) if at is not None), default=None)

    def some(self) -> Iterator[Change]:
        """What is kept apart, then the entries of the store."""
        if self._count:
            yield from (one for _, one in self._over.values() if one.value is not None)
            yield from self.store.get(list(islice(self.store.sorted_keys(), 1))).values()

    def __len__(self) -> int:
        return self._count
