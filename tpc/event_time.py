"""Event time of a service, as pure rules: which times are taken, how far a source has come, and the watermark.

A service reads a clock once per epoch (`now_ms`) and puts what it has read into the epoch's intent, with the sources
that were idle and the times that were too far ahead. Everything else here is computed from these and the events, so
that an epoch that is run again computes the same, whatever a clock says by then.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tpc.errors import DataError

TIME_MIN_MS = -62_135_596_800_000
"""The first instant of the year 1, in milliseconds since 1970."""
TIME_MAX_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""
AHEAD_MAX_S = 3600.0
"""An event may be so far ahead of the clock by default and still move the watermark."""


# Times of events ------------------------------------------------------------------------------------------------------


def checked_times(times: Sequence[Any], source: str) -> Sequence[int]:
    """These times as whole numbers of milliseconds since 1970.

    Raises `DataError`, which names the source and the value, for anything but a whole number of the years 1 to 9999.
    """
    if not times:
        return ()
    if set(map(type, times)) == {int} and min(times) >= TIME_MIN_MS and max(times) <= TIME_MAX_MS:
        return times
    return [_checked(time, source) for time in times]


def _checked(time: Any, source: str) -> int:
    try:
        number = None if isinstance(time, bool) else operator.index(time)
    except TypeError:
        number = None
    if number is None or not TIME_MIN_MS <= number <= TIME_MAX_MS:
        what = f"a {type(time).__qualname__}" if number is None else "outside of the years 1 to 9999"
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
    except Exception:  # noqa: BLE001  the error that is told is another one
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
    """The event time to which a source has come, and each of its partitions; None where none is known."""

    time_ms: int | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)

    def after(self, parts: Sequence[PartTimes], limit_ms: int | None = None) -> SourceClock:
        """Once these were read. A partition that holds more holds the time back: it may be read long after the others.

        Where all has been read that there is, the newest event says it. What lies after `limit_ms` says nothing.
        """
        came = dict(self.partitions)
        for part in parts:
            newest = latest(part.times, limit_ms)
            if newest is not None:
                came[part.name] = max(came.get(part.name, newest), newest)
        behind = [came.get(part.name) for part in parts if not part.is_ended] or [max(came.values(), default=None)]
        return SourceClock(later(self.time_ms, lowest(behind)), came)


def latest(times: Sequence[int], limit_ms: int | None = None) -> int | None:
    """The latest time that is not after the limit; None where there is none."""
    newest = max(times, default=None)
    if newest is None or limit_ms is None or newest <= limit_ms:
        return newest
    return max((time for time in times if time <= limit_ms), default=None)


def lowest(times: Iterable[int | None]) -> int | None:
    """Up to which time all have come; None while one of them has seen nothing, or where there is none."""
    found = list(times)
    known = [time for time in found if time is not None]
    return min(known) if known and len(known) == len(found) else None


def later(one: int | None, other: int | None) -> int | None:
    """The later of two times, of which None is before any."""
    return max((time for time in (one, other) if time is not None), default=None)


NO_TIME = SourceClock()


def is_idle(*, has_events: bool, is_ended: bool, was_idle: bool, quiet_s: float, idle_after_s: float | None) -> bool:
    """Whether a source has no part in the watermark of an epoch in which it has no event.

    One that is known to hold more is never idle, however long nothing has come of it.
    """
    if idle_after_s is None or has_events or not is_ended:
        return False
    return was_idle or quiet_s >= idle_after_s


def now_ms(read_s: float, last_ms: int | None) -> int:
    """What an epoch takes for now: a clock's reading, but never before that of an earlier epoch."""
    read = min(max(round(read_s * 1000), TIME_MIN_MS), TIME_MAX_MS)
    return read if last_ms is None else max(read, last_ms)


# An epoch -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceTime:
    """A source whose events have a time, in one epoch: the time to which it had come before and after its events.

    `limit_ms`: what is later does not move it. `is_single`: all its events are of one partition, so that it has come
    to a known time after each of them.
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
        """The time from which on what an event writes lives."""
        return time_ms if self.limit_ms is None else min(time_ms, self.limit_ms)


@dataclass(frozen=True)
class EpochTime:
    """The event time of one epoch, as its intent holds it: `watermark_ms` is the one with which it begins."""

    watermark_ms: int | None = None
    now_ms: int | None = None
    sources: tuple[SourceTime, ...] = ()

    @property
    def reached_ms(self) -> int | None:
        """The watermark after all its events; the next epoch begins with no earlier one."""
        return later(self.watermark_ms, lowest(each.ended_ms for each in self.sources if not each.is_idle))

    @property
    def idle(self) -> frozenset[str]:
        """The sources that have no part in its watermark."""
        return frozenset(each.name for each in self.sources if each.is_idle)


NO_EPOCH_TIME = EpochTime()


def time_in(cut: Mapping[str, Any]) -> EpochTime:
    """The event time that is in the cut of an epoch; of one of an earlier version the watermark alone is known."""
    time: Mapping[str, Any] = cut.get("time", {})
    sources = tuple(SourceTime(**each) for each in time.get("sources", ()))
    return EpochTime(cut["watermark_ms"], time.get("now_ms"), sources)


def epoch_time(last: EpochTime, now: int | None, sources: Iterable[SourceTime]) -> EpochTime:
    """Of the epoch after `last`: it begins where all sources that are not idle had come, and never before that one."""
    told = tuple(sources)
    began_ms = lowest(each.began_ms for each in told if not each.is_idle)
    return EpochTime(later(last.reached_ms, began_ms), now, told)


class Life(NamedTuple):
    """The time to live of a state's entries in an epoch, and the one by which they lived when it began.

    Where they differ, all entries live by the new one from this epoch on. None: until they are deleted.
    """

    ttl_ms: int | None
    before_ms: int | None

    def end_of(self, ends_ms: int | None, now_ms: int | None) -> int | None:
        """The new end of an entry. One whose time is not known, since it had no end, counts from now on."""
        if self.ttl_ms is None:
            return None
        if ends_ms is None or self.before_ms is None:
            return None if now_ms is None else now_ms + self.ttl_ms
        return ends_ms - self.before_ms + self.ttl_ms


def life_of(ttl_ms: int | None, before: Life | None, time: EpochTime) -> Life:
    """Of a state with this time to live, in the epoch after one in which it was `before`; None: nothing is on record.

    Where entries get an end that had none, event time must be known: until then they go on without.
    """
    before_ms = ttl_ms if before is None else before.ttl_ms
    if before_ms is None and ttl_ms is not None and time.reached_ms is None:
        return Life(None, None)
    return Life(ttl_ms, before_ms)


# How the watermark of a service goes on within an epoch, as a pure rule. See `tpc.event_time`.


class Watermark:
    """How the watermark goes on within an epoch, while one function is run over its events.

    An event is handled with the watermark to which the events before it have come. So it does not matter where an epoch
    is cut, as long as the order of the events does not depend on that: for a source of one partition.
    """

    def __init__(self, epoch: EpochTime) -> None:
        self.time_ms = epoch.watermark_ms
        self._sources = {each.name: each for each in epoch.sources}
        self._clocks = {each.name: each.began_ms for each in epoch.sources if not each.is_idle}

    def before_each(self, source: str, events: int, times: Sequence[int] | None) -> list[int | None]:
        """The watermark with which each of these events of a source is handled; it has gone on by all of them then.

        `times` are theirs, where they have any.
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
        """All events of a source in this epoch are handled."""
        told = self._sources.get(source)
        if told is not None and not told.is_idle:
            self._clocks[source] = told.ended_ms
            self.time_ms = later(self.time_ms, lowest(self._clocks.values()))
