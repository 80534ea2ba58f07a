"""How large the next epoch may become: by its trigger, by the pace of those before it, and by the size of events.

The time that functions take for an event shows only afterwards. So the first epoch is small, and each may be ten times
as large as what was tried before. Where an epoch is cut never shows in what is written.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from tpc.coordinator.service.epoch_trigger import EpochTrigger

FIRST_EVENTS = 100
"""Of an epoch, as long as the pace is unknown."""
GROWTH = 10
WORK_S = 1.0
"""So long an epoch may be computed and written even if cuts are to follow each other sooner: its end has a cost too."""
_DIFFERENT = 1.25
"""Epochs whose sizes differ by less tell nothing of what one more event costs."""
_SAMPLE = 16
_DEPTH = 4
_WITHIN = 50
"""So many values within one are looked at; the others are taken to be like them."""
_LOOKED_AT = 200
"""So many values within an event are looked at in all: a cut must not take longer for larger ones."""
_UNKNOWN_BYTES = 64


class EpochSize:
    """The bounds of the next epoch. Used by one thread at a time."""

    def __init__(self, every: EpochTrigger) -> None:
        self._every = every
        self._work_s = None if every.seconds is None else max(every.seconds, WORK_S)
        self._events = every.events if self._work_s is None else min(FIRST_EVENTS, every.events)
        self._event_s = 0.0
        self._compared: tuple[int, float] | None = None
        """How many events the epoch had that others are compared with, and how long it took."""
        self._event_bytes: dict[int, float] = {}
        """Of each source whose reader knows no sizes, by its number, as they were in the last epoch."""

    @property
    def events(self) -> int:
        """At most so many."""
        return self._events

    def took(self, events: int, seconds: float) -> None:
        """The last epoch had so many events, and took so long until all of its rows were with their sinks."""
        if self._work_s is None or not events:
            return
        seconds = max(seconds, 1e-6)
        self._event_s = self._seconds_of_one(events, seconds)
        # A part of the time may be the same for every epoch (a call for all events, say): a smaller epoch would not
        # shorten that, so events may take as long as it does.
        fixed_s = max(0.0, seconds - events * self._event_s)
        fitting = max(self._work_s - fixed_s, fixed_s) / max(self._event_s, 1e-9)
        tried = max(events * self._work_s / seconds, 2.0 * events)
        self._events = int(max(1, min(self._every.events, fitting, tried, GROWTH * max(events, FIRST_EVENTS))))

    def _seconds_of_one(self, events: int, seconds: float) -> float:
        """How much longer an epoch takes for one more event, as two epochs of different size show it."""
        on_average = seconds / events
        before, before_s = self._compared or (events, 0.0)
        are_alike = max(events, before) < _DIFFERENT * min(events, before)
        if are_alike and seconds <= 2 * before_s:
            return min(self._event_s, on_average)
        self._compared = events, seconds
        if are_alike or (events < before and seconds > 1.2 * before_s):
            return on_average  # it is the first, or functions have become slower: what one more costs is unknown
        return min(max(0.0, (seconds - before_s) / (events - before)), on_average)

    def came(self, source: int, events: Sequence[Any]) -> None:
        """These are events of a source whose reader knows no sizes."""
        if events:
            sample = events[:: -(-len(events) // _SAMPLE)]
            self._event_bytes[source] = sum(map(size_of, sample)) / len(sample)

    def estimated_bytes(self, source: int, events: int) -> int:
        """Of so many events of it; 0 as long as there was none."""
        return int(events * self._event_bytes.get(source, 0.0))

    def fitting(self, source: int, bytes_left: int) -> int:
        """How many events of it have so many bytes, at least one if there are any left."""
        if bytes_left <= 0:
            return 0
        each = self._event_bytes.get(source)
        return self._every.events if each is None else max(1, int(bytes_left / each))


def size_of(value: Any) -> int:
    """About how many bytes a value has in memory, with what is within it. It never raises."""
    return _size_of(value, _DEPTH, [_LOOKED_AT])


def _size_of(value: Any, depth: int, left: list[int]) -> int:
    left[0] -= 1
    size = _UNKNOWN_BYTES
    with suppress(Exception):
        size = sys.getsizeof(value, _UNKNOWN_BYTES)
        if depth and left[0] > 0 and isinstance(value, (dict, list, tuple, set, frozenset)) and value:
            looked_at, within = 0, 0
            for each in islice(value.items() if isinstance(value, dict) else value, _WITHIN):
                within += _size_of(each, depth - 1, left)
                looked_at += 1
                if left[0] <= 0:
                    break
            size += within * len(value) // looked_at
    return max(1, size)
