"""Time as the coordinator sees it: real in production, simulated under test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from tpc.support import deadlines

Result = TypeVar("Result")


class Clock(Protocol):
    """Where the coordinator gets its time from."""

    def wall(self) -> float:
        """Seconds since 1970, for records that people read; never used to decide anything."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait until `event` is set or the time is over; True when it is set."""

    def within(self, timeout_s: float, call: Callable[[], Result], *, waiting_for: str) -> Result:
        """The result of `call`; raises `TimeoutError` that names `waiting_for` when it takes longer."""


class SystemClock:
    """The machine's own time."""

    wall = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """See `Clock.wait`."""
        return event.wait(timeout_s)

    def within(self, timeout_s: float, call: Callable[[], Result], *, waiting_for: str) -> Result:
        """See `Clock.within`."""
        return deadlines.within(timeout_s, call, waiting_for=waiting_for)
