"""Which entries of a state end within an epoch, in the order of their ends: no more is kept of them than that."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator


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
