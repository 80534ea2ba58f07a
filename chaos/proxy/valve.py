"""One direction of a proxy's traffic, all connections together: open, closed, or narrowed to so many bytes a second."""

from __future__ import annotations

import asyncio
from enum import Enum

SLICE_S = 0.05
"""A narrow valve lets through what fits into this time, then waits."""


class Direction(Enum):
    """Which way bytes go."""

    REQUESTS = "to the server"
    REPLIES = "to the client"
    BOTH = "both ways"

    def includes(self, one: Direction) -> bool:
        """Whether `one` is meant."""
        return self in (Direction.BOTH, one)


class Valve:
    """Lives in the proxy's thread."""

    def __init__(self) -> None:
        self.passed_bytes = 0
        self._open = asyncio.Event()
        self._open.set()
        self._closed_by: set[object] = set()
        self._bytes_per_s: float | None = None
        self._free_at_s = 0.0

    def close(self, by: object) -> None:
        """Hold what comes."""
        self._closed_by.add(by)
        self._open.clear()

    def open(self, by: object) -> None:
        """Let go what is held, once nobody else holds it closed."""
        self._closed_by.discard(by)
        if not self._closed_by:
            self._open.set()

    def narrow(self, bytes_per_s: float | None) -> None:
        """At most so many from now on; None: as many as come."""
        self._bytes_per_s = bytes_per_s
        self._free_at_s = 0.0

    async def pass_through(self, wanted_bytes: int) -> int:
        """How many of `wanted_bytes` may go on now, at least one; waits until it may."""
        while True:
            await self._open.wait()
            if self._bytes_per_s is None:
                portion, wait_s = wanted_bytes, 0.0
            else:
                portion, wait_s = self._reserved(wanted_bytes, self._bytes_per_s)
            await asyncio.sleep(wait_s)
            if self._open.is_set():
                self.passed_bytes += portion
                return portion

    def _reserved(self, wanted_bytes: int, bytes_per_s: float) -> tuple[int, float]:
        """Connections stand in line: each takes a portion of the time to come, and waits until its portion is over."""
        now_s = asyncio.get_running_loop().time()
        portion = min(wanted_bytes, max(1, int(bytes_per_s * SLICE_S)))
        self._free_at_s = max(now_s, self._free_at_s) + portion / bytes_per_s
        return portion, self._free_at_s - now_s
