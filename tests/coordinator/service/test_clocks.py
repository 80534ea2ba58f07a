"""How far a source has come in event time: never further than a partition of which more is there to be read."""

from __future__ import annotations

import pytest

from tpc.coordinator.service.cut_events import CutEvents
from tpc.coordinator.service.epoch_input import SourceCut
from tpc.coordinator.service.functions import Input
from tpc.coordinator.service.source_watermarks import SourceWatermarks
from tpc.source import Part
from tpc.sources import IterableSource
from tpc.watermark import NO_EPOCH_TIME, NO_TIME, PartTimes, SourceClock, lowest


def after(clock: SourceClock, *parts: tuple[str, list[int], bool]) -> SourceClock:
    return clock.after([PartTimes(name, times, is_ended) for name, times, is_ended in parts])


def test_a_partition_that_was_read_ahead_does_not_move_the_time() -> None:
    clock = after(NO_TIME, ("0", [10, 900], False), ("1", [], False))
    assert clock.time_ms is None
    assert after(clock, ("0", [], True), ("1", [20], False)).time_ms == 20


def test_a_partition_that_holds_no_more_does_not_hold_the_time_back() -> None:
    assert after(NO_TIME, ("0", [10], True), ("1", [900], False)).time_ms == 900


def test_where_all_is_read_the_newest_event_tells_the_time() -> None:
    assert after(NO_TIME, ("0", [10], True), ("1", [900, 7], True), ("2", [], True)).time_ms == 900


def test_the_time_never_goes_back() -> None:
    clock = after(NO_TIME, ("0", [900], True), ("1", [], True))
    assert after(clock, ("0", [], True), ("1", [20], False)).time_ms == 900


def test_without_events_no_time_is_known() -> None:
    assert after(NO_TIME, ("0", [], True)).time_ms is None


def test_the_slowest_source_tells_the_watermark_once_all_have_told() -> None:
    assert lowest([30, 20]) == 20
    assert lowest([30, None]) is None
    assert lowest([]) is None


@pytest.mark.parametrize(("came", "is_exhausted", "reached_ms"), [(0, True, 301), (0, False, 290), (1, True, 290)])
def test_an_epoch_without_events_is_expected_to_come_as_far_as_it_would_be_cut(
    came: int, is_exhausted: bool, reached_ms: int
) -> None:
    """Partition 1 held the source back, since its end was not known yet. A timer at 300 waits for no later event."""
    watermarks = SourceWatermarks([Input(IterableSource([], name="s"), int)])
    watermarks.seek([SourceCut("s", "", "", clock=SourceClock(290, {"0": 301, "1": 290}))], NO_EPOCH_TIME)
    assert watermarks.watermark_ms([came], [is_exhausted]) == reached_ms


def test_an_event_at_the_limit_is_not_too_far_ahead_and_the_one_after_it_is() -> None:
    watermarks = SourceWatermarks([Input(IterableSource([], name="s"), int, ahead_max_ms=100)], wall_s=lambda: 1.0)
    limit_ms = 1_100
    events = CutEvents("s", [Part("0", [limit_ms, limit_ms + 1], is_ended=True)], int)
    clocks = watermarks.cut([events])
    [told] = clocks.epoch.sources
    assert (told.limit_ms, told.too_far) == (limit_ms, 1)
    assert clocks.sources[0].time_ms == limit_ms
