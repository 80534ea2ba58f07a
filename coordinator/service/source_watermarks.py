"""Where the sources of a service stand in event time: from one epoch to the next, and over a start.

The rules are `tpc.watermark`'s; here the clock is read, once per epoch, and is counted what came too far ahead of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from tpc.coordinator.service.cut_events import CutEvents
from tpc.coordinator.service.epoch_input import SourceCut
from tpc.coordinator.service.functions import Input
from tpc.watermark import (
    NO_EPOCH_TIME,
    NO_TIME,
    EpochTime,
    PartTimes,
    SourceClock,
    SourceTime,
    epoch_time,
    is_idle,
    later,
    now_ms,
)

logger = logging.getLogger(__name__)

_BEHIND_MS = 1_000
"""By so much clocks of machines may differ unnoticed."""


class Clocks(NamedTuple):
    """Where an epoch's events have brought the sources, in the order of the inputs, and the epoch's event time."""

    sources: Sequence[SourceClock]
    epoch: EpochTime


class SourceWatermarks:
    """Of the sources `inputs`. `wall_s` is the clock on the wall, `elapsed_s` one that never jumps.

    With `reads_clock` an epoch has the time of the clock also where no source tells a time.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        wall_s: Callable[[], float] = time.time,
        elapsed_s: Callable[[], float] = time.monotonic,
        *,
        reads_clock: bool = False,
    ) -> None:
        self._inputs = inputs
        self._reads_clock = reads_clock
        self._wall_s = wall_s
        self._elapsed_s = elapsed_s
        self._clocks = [NO_TIME for _ in inputs]
        self._last = NO_EPOCH_TIME
        self._promised_ms: int | None = None
        """The next epoch is cut since the clock has come to this time; it may go back until the epoch reads it."""
        self._active_at = [elapsed_s()] * len(inputs)
        """When a source had events last, or this process began to read it."""
        self._warned: set[str] = set()
        self._has_warned = False
        """That the clock is behind."""

    def seek(self, cuts: Sequence[SourceCut], last: EpochTime) -> None:
        """Stand where the last decided epoch ended."""
        self._last, self._promised_ms = last, None
        self._active_at = [self._elapsed_s()] * len(self._inputs)
        known = {cut.name: cut for cut in cuts}
        for number, each in enumerate(self._inputs):
            cut = known.get(each.name)
            self._clocks[number] = NO_TIME if cut is None else cut.clock

    def cut(self, events: Sequence[CutEvents]) -> Clocks:
        """An epoch has these events of each source.

        One whose time is refused, or that could not be decoded, moves nothing; but the source is not silent.
        """
        read_s = self._elapsed_s()
        now, self._promised_ms = now_ms(self._wall_s(), later(self._last.now_ms, self._promised_ms)), None
        told, clocks = [], list(self._clocks)
        for number, (each, came) in enumerate(zip(self._inputs, events, strict=True)):
            if came.came:
                self._active_at[number] = read_s
            if came.times is not None:
                source = _source_time(each, clocks[number], came.timed, now, self._is_idle(number, came, read_s))
                clocks[number] = clocks[number].after(came.timed, source.limit_ms)
                told.append(source)
                self._warn(source, came.times, now)
        self._clocks = clocks
        is_read = bool(told) or self._reads_clock
        self._last = epoch_time(self._last, now if is_read else self._last.now_ms, told)
        return Clocks(clocks, self._last)

    # What an epoch that was cut now would have, for timers that wait -----------------------------------------------

    def now_ms(self) -> int:
        """The time of the clock."""
        read_ms = now_ms(self._wall_s(), None)
        self._warn_if_behind(read_ms)
        return later(read_ms, self._last.now_ms) or read_ms

    def has_come_to(self, at_ms: int) -> bool:
        """Whether the clock has; then the next epoch has no earlier time."""
        if self.now_ms() < at_ms:
            return False
        self._promised_ms = at_ms
        return True

    def watermark_ms(self, counts: Sequence[int], exhausted: Sequence[bool]) -> int | None:
        """The watermark to which it would come at least, with so many events of each source.

        `exhausted` says of each that it holds no more, as far as its reader knows.
        """
        read_s, told = self._elapsed_s(), list[SourceTime]()
        for number, (each, clock) in enumerate(zip(self._inputs, self._clocks, strict=True)):
            if each.time is not None:
                idle = self._is_silent(number, counts[number], exhausted[number], read_s)
                time_ms = clock.time_ms
                if exhausted[number] and not counts[number]:  # then no partition holds it back any more
                    time_ms = clock.after([PartTimes(name, (), True) for name in clock.partitions]).time_ms
                told.append(SourceTime(each.name, clock.time_ms, time_ms, is_idle=idle))
        return epoch_time(self._last, None, told).reached_ms

    def _is_idle(self, number: int, came: CutEvents, read_s: float) -> bool:
        return self._is_silent(number, came.came, all(part.is_ended for part in came.timed), read_s)

    def _is_silent(self, number: int, came: int, is_ended: bool, read_s: float) -> bool:
        each = self._inputs[number]
        return is_idle(
            has_events=came > 0,
            is_ended=is_ended,
            was_idle=each.name in self._last.idle,
            quiet_s=read_s - self._active_at[number],
            idle_after_s=each.idle_after_s,
        )

    def _warn_if_behind(self, read_ms: int) -> None:
        behind_ms = 0 if self._last.now_ms is None else self._last.now_ms - read_ms
        if behind_ms >= _BEHIND_MS and not self._has_warned:
            logger.warning(
                "the clock of this machine is %.0f s behind the time that an earlier epoch has read, %s: timers by the "
                "clock wait until it has come to that time. Look which of the two is wrong",
                behind_ms / 1000,
                _instant(self._last.now_ms or 0),
            )
        self._has_warned = behind_ms >= _BEHIND_MS

    def _warn(self, source: SourceTime, times: Sequence[int], now: int) -> None:
        if source.too_far and source.name not in self._warned:
            self._warned.add(source.name)
            logger.warning(
                "an event of source %r has the time %s, and it is %s: what is so far ahead does not move the watermark "
                "(ahead_max of service.read). Further ones are counted, and not told",
                source.name,
                _instant(max(times)),
                _instant(now),
            )


def _source_time(source: Input, before: SourceClock, parts: Sequence[PartTimes], now: int, idle: bool) -> SourceTime:
    limit_ms = now + source.ahead_max_ms
    after = before.after(parts, limit_ms)
    too_far = sum(sum(time > limit_ms for time in p.times) for p in parts if p.times and max(p.times) > limit_ms)
    is_single = len(parts) == 1 and after.partitions.keys() <= {parts[0].name}
    return SourceTime(source.name, before.time_ms, after.time_ms, limit_ms, idle, is_single, too_far)


def _instant(ms: int) -> str:
    return f"{datetime(1970, 1, 1) + timedelta(milliseconds=ms):%Y-%m-%d %H:%M:%S} UTC"
