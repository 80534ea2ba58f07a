"""Where an entry of a state expires: what has ended by the watermark is gone for every event after it.

With a time to live an entry ends so long after the event that wrote it last, in event time. How long it is, and what a
new one changes, is `tpc/time_to_live.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, MutableMapping

from tpc.coordinator.service.state.contents import Contents
from tpc.coordinator.service.state.touched_entries import GONE, Touched


class ExpiryHeap:
    """When entries may expire in an epoch, up to `upto_ms`, the watermark that it reaches."""

    def __init__(self, upto_ms: int | None, due: Iterable[tuple[int, bytes]]) -> None:
        self._upto_ms = upto_ms
        self._heap = list(due)
        heapq.heapify(self._heap)

    def add(self, end_ms: int | None, key: bytes) -> None:
        """A key ends then."""
        if end_ms is not None and self._upto_ms is not None and end_ms <= self._upto_ms:
            heapq.heappush(self._heap, (end_ms, key))

    def apart(self) -> ExpiryHeap:
        """For what one event adds: only `take_over` adds it here."""
        return ExpiryHeap(self._upto_ms, ())

    def take_over(self, other: ExpiryHeap) -> None:
        """What was added apart."""
        for end in other._heap:
            heapq.heappush(self._heap, end)

    def is_due(self, watermark_ms: int) -> bool:
        """Whether one of them may have ended by then."""
        return bool(self._heap) and self._heap[0][0] <= watermark_ms

    def __len__(self) -> int:
        return len(self._heap)

    def first(self) -> tuple[int, bytes]:
        """When the first of them may end, and its key."""
        return self._heap[0]

    def drop_first(self) -> None:
        """It has ended, or ends at another time."""
        heapq.heappop(self._heap)

    def take(self, watermark_ms: int) -> Iterator[bytes]:
        """The keys that may have ended by then, each once for each time it was added."""
        while self.is_due(watermark_ms):
            yield heapq.heappop(self._heap)[1]


NO_EXPIRY = ExpiryHeap(None, ())


def expire(
    entries: MutableMapping[bytes, Touched],
    heap: ExpiryHeap,
    contents: Contents,
    goes: Callable[[bytes, Touched], None] | None,
    *,
    watermark_ms: int,
    ttl_ms: int | None,
) -> None:
    """Whatever has ended by the watermark is gone from `entries`; what lives on is in the heap with its new end.

    `goes` is told of each that was touched and may go.
    """
    for key in heap.take(watermark_ms):
        touched = entries.get(key)
        if touched is None:
            entries[key] = Touched(GONE, True)
        elif touched.value is not GONE:
            if goes is not None:
                goes(key, touched)
            ends_ms = touched.end(touched.held or contents.get(key), ttl_ms)
            if ends_ms is None or ends_ms > watermark_ms:
                heap.add(ends_ms, key)
            else:
                touched.expire()
