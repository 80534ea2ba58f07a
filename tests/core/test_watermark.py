"""Event time: what is a time, how far the watermark goes, and that a replay needs no clock."""

from __future__ import annotations

import pickle
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpc.errors import DataError
from tpc.time_to_live import TimeToLive, time_to_live_in
from tpc.watermark import (
    NO_EPOCH_TIME,
    NO_TIME,
    TIME_MAX_MS,
    TIME_MIN_MS,
    EpochTime,
    PartTimes,
    SourceTime,
    Watermark,
    checked_times,
    epoch_time,
    is_idle,
    lowest,
    now_ms,
)


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    "value",
    [
        *(1.0, 1000.5, float("nan"), float("inf"), np.float64(5.0)),
        *(True, None, "17", b"1", datetime(2024, 1, 1, tzinfo=timezone.utc), Odd()),
        *(TIME_MIN_MS - 1, TIME_MAX_MS + 1, 2**63, -(10**30)),
    ],
)
def test_what_is_no_time_is_refused_with_its_source_and_value(value: Any) -> None:
    with pytest.raises(DataError, match=r"the time of an event of source 'clicks' is .*since 1970") as refused:
        checked_times([1, value, 2], "clicks")
    told = "a value that has no repr" if isinstance(value, Odd) else repr(value)[:100]
    assert told in refused.value.what
    assert pickle.loads(pickle.dumps(refused.value)).what == refused.value.what


@given(st.lists(st.integers(TIME_MIN_MS, TIME_MAX_MS)))
def test_whole_numbers_in_the_range_are_taken_as_they_are(times: list[int]) -> None:
    assert list(checked_times(times, "clicks")) == times
    small = [time % 2**31 for time in times]
    made = checked_times([np.int64(time) for time in small], "clicks")
    assert list(made) == small
    assert set(map(type, made)) <= {int}


@given(st.lists(st.floats(-1e15, 1e15)))
def test_now_never_goes_back_whatever_the_clock_says(readings: list[float]) -> None:
    last: int | None = None
    for reading in readings:
        now = now_ms(reading, last)
        assert TIME_MIN_MS <= now <= TIME_MAX_MS
        assert last is None or now >= last
        last = now


class Step(NamedTuple):
    """What an epoch has of each of two sources, and what the clock says."""

    clock_s: float
    times: tuple[list[int], list[int]]
    is_ended: tuple[bool, bool]
    quiet_s: tuple[float, float]
    is_new_process: bool


HOUR_MS = 3_600_000
steps = st.lists(
    st.builds(
        Step,
        st.integers(-10_000, 10_000),
        st.tuples(*[st.lists(st.integers(-(10**7), 2 * 10**7), max_size=4)] * 2),
        st.tuples(st.booleans(), st.booleans()),
        st.tuples(*[st.floats(0, 20)] * 2),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def recorded(time: EpochTime) -> EpochTime:
    """What a process reads back of an intent."""
    return EpochTime(time.watermark_ms, time.now_ms, tuple(SourceTime(**vars(each)) for each in time.sources))


@given(steps)
def test_a_clock_that_goes_back_or_jumps_moves_no_watermark_back_and_none_too_far(came: list[Step]) -> None:
    last, clocks = NO_EPOCH_TIME, [NO_TIME, NO_TIME]
    latest = -(10**9)
    for step in came:
        if step.is_new_process:
            last = recorded(last)
        now = now_ms(step.clock_s, last.now_ms)
        told = []
        for number in range(2):
            before, limit_ms = clocks[number], now + HOUR_MS
            parts = [PartTimes("0", step.times[number], step.is_ended[number])]
            clocks[number] = before.after(parts, limit_ms)
            idle = is_idle(
                has_events=bool(step.times[number]),
                is_ended=step.is_ended[number],
                was_idle=f"{number}" in last.idle,
                quiet_s=step.quiet_s[number],
                idle_after_s=10.0,
            )
            told.append(SourceTime(f"{number}", before.time_ms, clocks[number].time_ms, limit_ms, idle, is_single=True))
        time = epoch_time(last, now, told)
        latest = max([latest, *(at for times in step.times for at in times if at <= now + HOUR_MS)])
        for one, other in ((last.watermark_ms, last.reached_ms), (last.reached_ms, time.watermark_ms)):
            assert one is None or (other is not None and one <= other)
        assert time.reached_ms is None or time.reached_ms <= min(latest, now + HOUR_MS)
        held_back_by = [clocks[n].time_ms for n in range(2) if not told[n].is_idle]
        if None not in held_back_by and held_back_by:
            assert time.reached_ms == max(at for at in (time.watermark_ms, lowest(held_back_by)) if at is not None)
        _check_within(time, step)
        last = time


def _check_within(time: EpochTime, step: Step) -> None:
    """Event by event it never goes back, and comes to where the epoch comes."""
    watermark = Watermark(time)
    seen = [watermark.time_ms]
    for number in range(2):
        seen += watermark.before_each(f"{number}", len(step.times[number]), step.times[number])
    seen.append(watermark.time_ms)
    known = [at for at in seen if at is not None]
    assert known == sorted(known)
    assert seen[-1] == time.reached_ms
    replayed = Watermark(recorded(time))
    assert [replayed.before_each(f"{n}", len(step.times[n]), step.times[n]) for n in range(2)]
    assert replayed.time_ms == watermark.time_ms


@given(st.lists(st.integers(0, 100), min_size=1), st.data())
def test_the_watermark_before_each_event_does_not_depend_on_the_cut(times: list[int], data: st.DataObject) -> None:
    def run(sizes: list[int]) -> list[int | None]:
        last, clock, at, seen = NO_EPOCH_TIME, NO_TIME, 0, list[int | None]()
        for size in sizes:
            some = times[at : at + size]
            after = clock.after([PartTimes("0", some, False)], 50)
            source = SourceTime("a", clock.time_ms, after.time_ms, 50, is_single=True)
            last, clock, at = epoch_time(last, 0, [source]), after, at + size
            seen += Watermark(last).before_each("a", len(some), some)
        return seen

    at = sorted(data.draw(st.sets(st.integers(1, len(times)))) | {len(times)})
    sizes = [end - start for start, end in zip([0, *at], at, strict=False)]
    assert run(sizes) == run([1] * len(times))


def test_a_source_that_holds_more_or_has_events_is_never_idle() -> None:
    quiet: dict[str, Any] = {"quiet_s": 99.0, "idle_after_s": 10.0, "was_idle": False}
    assert is_idle(has_events=False, is_ended=True, **quiet)
    assert not is_idle(has_events=True, is_ended=True, **quiet)
    assert not is_idle(has_events=False, is_ended=False, **quiet)
    assert not is_idle(has_events=False, is_ended=True, **{**quiet, "idle_after_s": None})
    assert not is_idle(has_events=False, is_ended=True, **{**quiet, "quiet_s": 9.0})
    assert is_idle(has_events=False, is_ended=True, **{**quiet, "quiet_s": 0.0, "was_idle": True})


def test_a_changed_time_to_live_moves_each_end_by_the_difference() -> None:
    assert TimeToLive(5, 10).end_of(100, 50) == 95
    assert TimeToLive(20, 10).end_of(100, 50) == 110
    assert TimeToLive(None, 10).end_of(100, 50) is None
    assert TimeToLive(20, None).end_of(None, 50) == 70
    assert time_to_live_in(20, None, NO_EPOCH_TIME) == TimeToLive(20, 20)
    assert time_to_live_in(20, TimeToLive(None, None), NO_EPOCH_TIME) == TimeToLive(None, None)
    assert time_to_live_in(20, TimeToLive(None, None), EpochTime(1)) == TimeToLive(20, None)


def test_an_event_from_after_the_limit_lives_from_the_limit_on() -> None:
    assert [SourceTime("s", None, None, limit_ms=10).bounded(time_ms) for time_ms in (9, 10, 11)] == [9, 10, 10]
    assert SourceTime("s", None, None).bounded(11) == 11
