"""Event time of a service, as pure rules: which times are accepted, how far a source has come, and the watermark.

A service reads a clock once per epoch (`now_ms`). It puts the reading into the epoch's intent, with the sources that
were idle and the times that were too far ahead. Everything else here is computed from these and the events. So a replay
of an epoch computes the same, whatever the clock says by then.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpc.errors import DataError

TIME_MIN_MS = -62_135_596_800_000
"""The first instant of the year 1, in milliseconds since 1970."""
TIME_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""
AHEAD_MAX_S = 3600.0
"""By default, how far an event may be ahead of the clock and still move the watermark."""


# Times of events ------------------------------------------------------------------------------------------------------


def checked_times(times: Sequence[Any], source: str) -> Sequence[int]:
    """These times as whole numbers of milliseconds since 1970.

    Raises `DataError` with the source and the value for anything but a whole number of the years 1 to 9999.
    """
    if not times:
        return ()
    if set(map(type, times)) == {int} and min(times) >= TIME_MIN_MS and max(times) <= TIME_MAX_MS:
        return times
    return [_checked(time, source) for time in times]


def whole_ms(time: Any) -> int | None:
    """A time as a whole number of milliseconds since 1970; None for what is none of the years 1 to 9999."""
    number = _whole(time)
    return number if number is not None and TIME_MIN_MS <= number <= TIME_MAX_MS else None


def _whole(time: Any) -> int | None:
    try:
        return None if isinstance(time, bool) else operator.index(time)
    except TypeError:
        return None


def _checked(time: Any, source: str) -> int:
    number = whole_ms(time)
    if number is None:
        what = f"a {type(time).__qualname__}" if _whole(time) is None else "outside of the years 1 to 9999"
        raise DataError(
            f"the time of an event of source {source!r} is {_told(time)}, {what}: event time is a whole number of "
            "milliseconds since 1970",
            remedy=f"let the time= of source {source!r} return such a number: round(value) of a float, say, or "
            "round(value.timestamp() * 1000) of a datetime; then restart.",
        )
    return number


def _told(value: object) -> str:
    try:
        return f"{value!r:.100}"
    except Exception:  # noqa: BLE001  a failing repr must not replace the error that is being raised
        return "a value that has no repr"


# Sources --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartTimes:
    """The times of one partition's events in a cut; `is_ended`: the partition held no more when it was read."""

    name: str
    times: Sequence[int]
    is_ended: bool


@dataclass(frozen=True)
class SourceClock:
    """The event time that a source, and each of its partitions, has reached; None if none is known."""

    time_ms: int | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)

    def after(self, parts: Sequence[PartTimes], limit_ms: int | None = None) -> SourceClock:
        """The clock after these events were read.

        A partition that holds more holds the time back, since it may be read long after the others. If all partitions
        are read to their end, the newest event counts. Events after `limit_ms` do not count.
        """
        came = dict(self.partitions)
        for part in parts:
            newest = latest(part.times, limit_ms)
            if newest is not None:
                came[part.name] = max(came.get(part.name, newest), newest)
        behind = [came.get(part.name) for part in parts if not part.is_ended] or [max(came.values(), default=None)]
        return SourceClock(later(self.time_ms, lowest(behind)), came)


def latest(times: Sequence[int], limit_ms: int | None = None) -> int | None:
    """The latest time that is not after the limit; None if there is none."""
    newest = max(times, default=None)
    if newest is None or limit_ms is None or newest <= limit_ms:
        return newest
    return max((time for time in times if time <= limit_ms), default=None)


def lowest(times: Iterable[int | None]) -> int | None:
    """The time that all have reached; None while one of them has no time, or if there are none."""
    found = list(times)
    known = [time for time in found if time is not None]
    return min(known) if known and len(known) == len(found) else None


def later(one: int | None, other: int | None) -> int | None:
    """The later of two times; None is before any time."""
    return max((time for time in (one, other) if time is not None), default=None)


NO_TIME = SourceClock()


def is_idle(*, has_events: bool, is_ended: bool, was_idle: bool, quiet_s: float, idle_after_s: float | None) -> bool:
    """Whether a source without events in an epoch is left out of its watermark.

    A source that is known to hold more is never idle, however long none of it has been read.
    """
    if idle_after_s is None or has_events or not is_ended:
        return False
    return was_idle or quiet_s >= idle_after_s


def now_ms(read_s: float, last_ms: int | None) -> int:
    """The present of an epoch: the clock's reading, but never before that of an earlier epoch."""
    read = min(max(round(read_s * 1000), TIME_MIN_MS), TIME_MAX_MS)
    return read if last_ms is None else max(read, last_ms)


# An epoch -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceTime:
    """A source whose events have a time, in one epoch: the time that it had reached before and after its events.

    `limit_ms`: later events do not move it. `is_single`: all its events are of one partition, so that the time it has
    reached is known after each of them.
    """

    name: str
    began_ms: int | None
    ended_ms: int | None
    limit_ms: int | None = None
    is_idle: bool = False
    is_single: bool = False
    too_far: int = 0
    """How many of its events were after the limit."""

    def bounded(self, time_ms: int) -> int:
        """The time from which the time to live of an event's entries is counted."""
        return time_ms if self.limit_ms is None else min(time_ms, self.limit_ms)


@dataclass(frozen=True)
class EpochTime:
    """The event time of one epoch, as its intent holds it; `watermark_ms` is the watermark at its begin."""

    watermark_ms: int | None = None
    now_ms: int | None = None
    sources: tuple[SourceTime, ...] = ()

    @property
    def reached_ms(self) -> int | None:
        """The watermark after all events of the epoch; the next epoch does not begin with an earlier one."""
        return later(self.watermark_ms, lowest(each.ended_ms for each in self.sources if not each.is_idle))

    @property
    def idle(self) -> frozenset[str]:
        """The sources that are left out of its watermark."""
        return frozenset(each.name for each in self.sources if each.is_idle)


NO_EPOCH_TIME = EpochTime()


def time_in(cut: Mapping[str, Any]) -> EpochTime:
    """The event time in the cut of an epoch; a cut of an earlier version has only the watermark."""
    time: Mapping[str, Any] = cut.get("time", {})
    sources = tuple(SourceTime(**each) for each in time.get("sources", ()))
    return EpochTime(cut["watermark_ms"], time.get("now_ms"), sources)


def epoch_time(last: EpochTime, now: int | None, sources: Iterable[SourceTime]) -> EpochTime:
    """The event time of the epoch after `last`: it begins with the time that all sources that are not idle had reached.

    It never begins before the watermark of `last`.
    """
    told = tuple(sources)
    began_ms = lowest(each.began_ms for each in told if not each.is_idle)
    return EpochTime(later(last.reached_ms, began_ms), now, told)


# The watermark within an epoch ----------------------------------------------------------------------------------------


class Watermark:
    """The watermark within an epoch, while one function is run over the events.

    An event is handled with the watermark that the events before it have reached. So the result does not depend on
    where an epoch is cut, as long as the order of the events does not: that holds for a source of one partition.
    """

    def __init__(self, epoch: EpochTime) -> None:
        self.time_ms = epoch.watermark_ms
        self._sources = {each.name: each for each in epoch.sources}
        self._clocks = {each.name: each.began_ms for each in epoch.sources if not each.is_idle}

    def before_each(self, source: str, events: int, times: Sequence[int] | None) -> list[int | None]:
        """The watermark with which each of these events of a source is handled. Moves the watermark past all of them.

        `times` are the events' times; None if they have none.
        """
        told = self._sources.get(source)
        if times is None or told is None or not told.is_single or told.is_idle:
            same = [self.time_ms] * events
            self.after(source)
            return same
        before: list[int | None] = []
        watermark, clock = self.time_ms, told.began_ms
        others = [time for name, time in self._clocks.items() if name != source]
        most, is_known = lowest(others), None not in others
        limit_ms = TIME_MAX_MS if told.limit_ms is None else told.limit_ms
        for time in times:
            before.append(watermark)
            if time <= limit_ms and (clock is None or time > clock):
                clock = time
                if is_known:
                    reached = clock if most is None or clock < most else most
                    watermark = reached if watermark is None or reached > watermark else watermark
        self._clocks[source], self.time_ms = clock, watermark
        return before

    def after(self, source: str) -> None:
        """Note that all events of a source in this epoch are handled."""
        told = self._sources.get(source)
        if told is not None and not told.is_idle:
            self._clocks[source] = told.ended_ms
            self.time_ms = later(self.time_ms, lowest(self._clocks.values()))
