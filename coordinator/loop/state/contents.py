"""What a state held before the running epoch: all of it in memory, or on disk with a part of it in memory.

Both are the content after one epoch, in bytes; `fold` takes them to the next. Neither decides anything.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator

from tpc.coordinator.loop.state.changes import Change
from tpc.coordinator.loop.state.rules import NO_EPOCH
from tpc.coordinator.loop.state.store import Store


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
    def sorted_keys(self) -> Iterator[bytes]:
        """All keys in the order of their bytes, the same after a restart."""

    def entries(self) -> Iterator[Change]:
        """All of it, in the order of the keys' bytes."""
        for key in self.sorted_keys():
            held = self.get(key)
            if held is not None:
                yield held

    @abstractmethod
    def due(self, watermark_ms: int) -> list[bytes]:
        """The keys that expire at this event time or earlier."""

    @abstractmethod
    def __len__(self) -> int:
        """How many keys there are."""


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
        self._expiring: list[tuple[int, bytes]] = []
        """A heap; what stands in it may have been changed or gone since."""

    def restore(self, before: int | None) -> None:
        """Read it whole."""
        self.epoch, undo = (self.store.applied(), {}) if before is None else self.store.undo(before)
        self._values, self._expires_ms = self.store.load()
        self._put(undo)
        self._expiring = [(at, key) for key, at in self._expires_ms.items()]
        heapq.heapify(self._expiring)

    def fold(self, epoch: int, changes: dict[bytes, Change], added: int) -> None:
        """What changed, and nothing else, is touched."""
        self.epoch = epoch
        self._put(changes)
        for key, change in changes.items():
            if change.expires_ms is not None:
                heapq.heappush(self._expiring, (change.expires_ms, key))

    def _put(self, changes: dict[bytes, Change]) -> None:
        for key, change in changes.items():
            if change.value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = change.value
            if change.expires_ms is not None:
                self._expires_ms[key] = change.expires_ms
            elif self._expires_ms:
                self._expires_ms.pop(key, None)

    def get(self, key: bytes) -> Change | None:
        """From memory."""
        value = self._values.get(key)
        return None if value is None else Change(key, value, self._expires_ms.get(key))

    def sorted_keys(self) -> Iterator[bytes]:
        """Sorted for who asks."""
        return iter(sorted(self._values))

    def due(self, watermark_ms: int) -> list[bytes]:
        """From the heap, which keeps them until an epoch has taken them away."""
        popped = []
        while self._expiring and self._expiring[0][0] <= watermark_ms:
            popped.append(heapq.heappop(self._expiring))
        due = {key: at for at, key in popped if self._expires_ms.get(key) == at}
        for key, at in due.items():  # the epoch may be aborted, and another one has to find them again
            heapq.heappush(self._expiring, (at, key))
        return sorted(due)

    def __len__(self) -> int:
        return len(self._values)


class DiskContents(Contents):
    """Read from the store through a bounded cache. What the store has not applied yet lies over it."""

    def __init__(self, store: Store, cached_keys: int) -> None:
        super().__init__(store)
        self.cached_keys = cached_keys
        self._over: dict[bytes, Change] = {}
        self._cache: OrderedDict[bytes, Change | None] = OrderedDict()
        self._count = 0

    def restore(self, before: int | None) -> None:
        """Nothing is read but the number of keys."""
        self.epoch, self._over = (self.store.applied(), {}) if before is None else self.store.undo(before)
        self._cache.clear()
        self._count = self.store.count()
        for key, change in self._over.items():
            self._count += (change.value is not None) - (self.store.get(key) is not None)

    def fold(self, epoch: int, changes: dict[bytes, Change], added: int) -> None:
        """Over what the store shows, until it shows this epoch itself."""
        self._count += added
        if self._over and self.store.applied() >= self.epoch:
            self._over.clear()
        self._over.update(changes)
        for key, change in changes.items():
            self._remember(key, change if change.value is not None else None)
        self.epoch = epoch
        if self.store.applied() >= epoch:
            self._over.clear()

    def get(self, key: bytes) -> Change | None:
        """What lies over the store, the cache, the store."""
        if key in self._over:
            return self._over[key] if self._over[key].value is not None else None
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        return self._remember(key, self.store.get(key))

    def _remember(self, key: bytes, held: Change | None) -> Change | None:
        self._cache[key] = held
        self._cache.move_to_end(key)
        if len(self._cache) > self.cached_keys:
            self._cache.popitem(last=False)
        return held

    def sorted_keys(self) -> Iterator[bytes]:
        """Merged from the store and what lies over it."""
        kept = (key for key in self.store.sorted_keys() if key not in self._over)
        return heapq.merge(kept, sorted(key for key, change in self._over.items() if change.value is not None))

    def due(self, watermark_ms: int) -> list[bytes]:
        """By the store's index."""
        kept = [key for key in self.store.due(watermark_ms) if key not in self._over]
        over = [change for change in self._over.values() if change.value is not None and change.expires_ms is not None]
        return sorted([*kept, *(c.key for c in over if c.expires_ms is not None and c.expires_ms <= watermark_ms)])

    def __len__(self) -> int:
        return self._count
