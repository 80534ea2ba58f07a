"""Where the sources of a service stand in event time: from one epoch to the next, and over a start.

The rules are `tpc.event_time`'s; here the clock is read, once per epoch, and is counted what came too far ahead of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from tpc.coordinator.service.barriers import SourceCut
from tpc.coordinator.service.cut_events import CutEvents
from tpc.coordinator.service.functions import Input
from tpc.event_time import (
    NO_EPOCH_TIME,
    NO_TIME,
    EpochTime,
    PartTimes,
    SourceClock,
    SourceTime,
    epoch_time,
    is_idle,
    now_ms,
)

logger = logging.getLogger(__name__)


class Clocks(NamedTuple):
    """Where an epoch's events have brought the sources, in the order of the inputs, and the epoch's event time."""

    sources: Sequence[SourceClock]
    epoch: EpochTime


class EventClocks:
    """Of the sources `inputs`. `wall_s` is the clock on the wall, `elapsed_s` one that never jumps."""

    def __init__(
        self,
        inputs: Sequence[Input],
        wall_s: Callable[[], float] = time.time,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inputs = inputs
        self._wall_s = wall_s
        self._elapsed_s = elapsed_s
        self._clocks = [NO_TIME for _ in inputs]
        self._last = NO_EPOCH_TIME
        self._active_at = [elapsed_s()] * len(inputs)
        """When a source had events last, or this process began to read it."""
        self._warned: set[str] = set()

    def seek(self, cuts: Sequence[SourceCut], last: EpochTime) -> None:
        """Stand where the last decided epoch ended."""
        self._last = last
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
        now = now_ms(self._wall_s(), self._last.now_ms)
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
        self._last = epoch_time(self._last, now if told else None, told)
        return Clocks(clocks, self._last)

    def _is_idle(self, number: int, came: CutEvents, read_s: float) -> bool:
        each = self._inputs[number]
        return is_idle(
            has_events=came.came > 0,
            is_ended=all(part.is_ended for part in came.timed),
            was_idle=each.name in self._last.idle,
            quiet_s=read_s - self._active_at[number],
            idle_after_s=each.idle_after_s,
        )

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
