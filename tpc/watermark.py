"""How the watermark of a service goes on within an epoch, as a pure rule. See `tpc.event_time`."""

from __future__ import annotations

from collections.abc import Sequence

from tpc.event_time import TIME_MAX_MS, EpochTime, later, lowest


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
