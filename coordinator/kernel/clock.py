"""Time as the coordinator sees it: real in production, simulated under test."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Where the coordinator gets its time from."""

    def wall(self) -> float:
        """Seconds since 1970, for records that people read; never used to decide anything."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait until `event` is set or the time is over; True when it is set."""


class SystemClock:
    """The machine's own time."""

    def wall(self) -> float:
        """See `Clock.wall`."""
        return time.time()

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """See `Clock.wait`."""
        return event.wait(timeout_s)
