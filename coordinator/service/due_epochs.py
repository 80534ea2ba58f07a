"""When an epoch is cut since something is due that waits for a time, and not for events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tpc.coordinator.service.firing import Soonest
from tpc.coordinator.service.source_watermarks import SourceWatermarks

TRY_AGAIN_S = 60.0
"""A source that has said that it holds no more, and in the cut that it does, is believed again so much later."""


class DueEpochs:
    """Of one service: by the clock, and by event time where a source that has fallen silent lets it go on."""

    def __init__(self, clocks: SourceWatermarks, elapsed_s: Callable[[], float] = time.monotonic) -> None:
        self.had_events = True
        """Whether the last epoch was cut with events; True before the first."""
        self._clocks = clocks
        self._elapsed_s = elapsed_s
        self._soonest = Soonest()
        self._promised_ms: int | None = None
        """The event time for which the next epoch is to be cut."""
        self._tried: tuple[int, float] | None = None
        """For which event time an epoch was cut last without events, and when."""

    def wait_for(self, soonest: Soonest) -> None:
        """This is due first, once the last epoch is complete."""
        self._soonest = soonest

    def cut(self, had_events: bool) -> None:
        """An epoch is cut."""
        self.had_events = had_events
        promised_ms, self._promised_ms = self._promised_ms, None
        self._tried = None if had_events or promised_ms is None else (promised_ms, self._elapsed_s())

    def clock_in_s(self) -> float:
        """In how many seconds something is due by the clock."""
        at_ms = self._soonest.clock_ms
        return float("inf") if at_ms is None else max(0.0, (at_ms - self._clocks.now_ms()) / 1000)

    def is_due(self, counts: Sequence[int], exhausted: Callable[[], Sequence[bool]]) -> bool:
        """Whether it is time, with so many events polled of each source; `exhausted` tells which hold no more."""
        clock_ms, event_ms = self._soonest.clock_ms, self._soonest.event_ms
        if clock_ms is not None and self._clocks.has_come_to(clock_ms):
            return True
        if event_ms is None or self._has_tried(event_ms):
            return False
        reached_ms = self._clocks.watermark_ms(counts, exhausted())
        if reached_ms is None or reached_ms < event_ms:
            return False
        self._promised_ms = event_ms
        return True

    def _has_tried(self, event_ms: int) -> bool:
        """Whether the last epoch was cut for that, and did not come so far."""
        if self._tried is None or self._tried[0] != event_ms:
            return False
        return self._elapsed_s() < self._tried[1] + TRY_AGAIN_S
