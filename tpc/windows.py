"""Windows of event time: which of them an event's time falls into, and when a window is over. Pure rules.

A window is half-open, `[start_ms, end_ms)`, in milliseconds since 1970. Tumbling and hopping windows are aligned to
1970-01-01 00:00 UTC, also before it. A session is what its events make it: each event is a window of `gap` from its
time on, and windows that overlap are one. So two events that are exactly `gap` apart are two sessions.

What a service keeps of its windows, and when it calls the user, is in `coordinator/service/windows.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from tpc.durations import require_length
from tpc.errors import ConfigurationError
from tpc.watermark import TIME_MAX_MS


class Window(NamedTuple):
    """The bounds of a window, `[start_ms, end_ms)`, and which of its results this is."""

    start_ms: int
    end_ms: int
    revision: int = 0
    """How many results of the window there were before this one."""
    is_final: bool = True
    """No other result of the window follows."""


@dataclass(frozen=True)
class Tumbling:
    """Windows of `size` seconds, one after the other: an event is in one. Raises `ConfigurationError`."""

    size: float

    def __post_init__(self) -> None:
        require_length("Tumbling", "size", self.size)

    @property
    def size_ms(self) -> int:
        """How long a window is."""
        return round(self.size * 1000)

    def windows_of(self, time_ms: int) -> list[Window]:
        """The window that an event of this time is in."""
        return [self.window_from(time_ms // self.size_ms * self.size_ms)]

    def window_from(self, start_ms: int) -> Window:
        """The window that begins then."""
        return Window(start_ms, start_ms + self.size_ms)

    def to_json(self) -> Mapping[str, Any]:
        """What is compared with the windows of an earlier start."""
        return {"kind": "tumbling", "size_ms": self.size_ms}


@dataclass(frozen=True)
class Hopping:
    """Windows of `size` seconds, of which one begins `every` so many seconds: an event may be in several.

    Raises `ConfigurationError`, also for `every` greater than `size`: events between two windows would be in none.
    """

    size: float
    every: float

    def __post_init__(self) -> None:
        require_length("Hopping", "size", self.size)
        require_length("Hopping", "every", self.every)
        if self.every_ms > self.size_ms:
            raise ConfigurationError(
                f"Hopping: every={self.every:g} s is longer than size={self.size:g} s: events between two windows "
                "would be in none",
                remedy="give every= at most size=.",
            )

    @property
    def size_ms(self) -> int:
        """How long a window is."""
        return round(self.size * 1000)

    @property
    def every_ms(self) -> int:
        """How long after a window's start the next one begins."""
        return round(self.every * 1000)

    def windows_of(self, time_ms: int) -> list[Window]:
        """The windows that an event of this time is in, the earliest first."""
        first = ((time_ms - self.size_ms) // self.every_ms + 1) * self.every_ms
        return [self.window_from(start) for start in range(first, time_ms + 1, self.every_ms)]

    def window_from(self, start_ms: int) -> Window:
        """The window that begins then."""
        return Window(start_ms, start_ms + self.size_ms)

    def to_json(self) -> Mapping[str, Any]:
        """What is compared with the windows of an earlier start."""
        return {"kind": "hopping", "size_ms": self.size_ms, "every_ms": self.every_ms}


@dataclass(frozen=True)
class Session:
    """Windows that end when nothing has come for `gap` seconds. Raises `ConfigurationError`."""

    gap: float

    def __post_init__(self) -> None:
        require_length("Session", "gap", self.gap)

    @property
    def gap_ms(self) -> int:
        """How long a session goes on after an event."""
        return round(self.gap * 1000)

    def window_of(self, time_ms: int) -> Window:
        """The session of an event alone."""
        return Window(time_ms, time_ms + self.gap_ms)

    def to_json(self) -> Mapping[str, Any]:
        """What is compared with the windows of an earlier start."""
        return {"kind": "session", "gap_ms": self.gap_ms}


HeldT = TypeVar("HeldT", bound="tuple[int, int, Any]")


def bridged(sessions: Iterable[HeldT], window: Window) -> tuple[Window, Sequence[HeldT], Sequence[HeldT]]:
    """Of sessions `(start_ms, end_ms, ...)` that do not overlap: what a new one makes of them.

    Returns the bounds of the session that the new one is part of, those that it takes in, and the others, each in the
    order given.
    """
    joined: list[HeldT] = []
    apart: list[HeldT] = []
    for each in sessions:
        (joined if each[0] < window.end_ms and window.start_ms < each[1] else apart).append(each)
    start_ms = min([window.start_ms, *(each[0] for each in joined)])
    end_ms = max([window.end_ms, *(each[1] for each in joined)])
    return Window(start_ms, end_ms), joined, apart


# When a window is over ------------------------------------------------------------------------------------------------


def over_ms(end_ms: int, lateness_ms: int = 0) -> int:
    """The event time at which a window is over that ends at `end_ms`: its last event may come so much later.

    No watermark comes to a time after the year 9999: what would be over later is over at its last millisecond.
    """
    return min(end_ms + lateness_ms, TIME_MAX_MS)


def is_over(over_at_ms: int, reached_ms: int | None) -> bool:
    """Whether event time, which has reached `reached_ms` (None: it is not known), has come to that time."""
    return reached_ms is not None and over_at_ms <= reached_ms
