"""Windows of event time: each time is in the windows whose bounds hold it, and sessions are what overlaps."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tpc.errors import ConfigurationError
from tpc.watermark import TIME_MAX_MS, TIME_MIN_MS
from tpc.windows import Hopping, Session, Tumbling, Window, bridged, is_over, over_ms

times = st.integers(TIME_MIN_MS, TIME_MAX_MS) | st.integers(-300, 300)
lengths = st.integers(1, 200)


def ms(length_ms: int) -> float:
    return length_ms / 1000


def test_a_tumbling_window_holds_its_start_and_not_its_end() -> None:
    minute = Tumbling(60)
    assert minute.windows_of(0) == [Window(0, 60_000)]
    assert minute.windows_of(59_999) == [Window(0, 60_000)]
    assert minute.windows_of(60_000) == [Window(60_000, 120_000)]


def test_windows_are_aligned_to_1970_also_before_it() -> None:
    assert Tumbling(60).windows_of(-1) == [Window(-60_000, 0)]
    assert Tumbling(60).windows_of(-60_000) == [Window(-60_000, 0)]
    assert Hopping(60, 30).windows_of(-1) == [Window(-60_000, 0), Window(-30_000, 30_000)]


def test_hopping_windows_come_the_earliest_first() -> None:
    assert Hopping(60, 20).windows_of(60_000) == [
        Window(20_000, 80_000),
        Window(40_000, 100_000),
        Window(60_000, 120_000),
    ]


@given(time_ms=times, size=lengths)
def test_a_time_is_in_the_one_tumbling_window_whose_bounds_hold_it(time_ms: int, size: int) -> None:
    near = range(-2, 3)
    base = time_ms - time_ms % size
    starts = [base + n * size for n in near if base + n * size <= time_ms < base + (n + 1) * size]
    assert Tumbling(ms(size)).windows_of(time_ms) == [Window(start, start + size) for start in starts]
    assert all(start % size == 0 for start in starts)


@given(time_ms=times, size=lengths, every=lengths)
@example(time_ms=-1, size=7, every=3)
@example(time_ms=0, size=5, every=5)
def test_a_time_is_in_all_hopping_windows_whose_bounds_hold_it(time_ms: int, size: int, every: int) -> None:
    size, every = max(size, every), min(size, every)
    starts = [start for start in range(time_ms - size - every, time_ms + every + 1) if start % every == 0]
    expected = [Window(start, start + size) for start in starts if start <= time_ms < start + size]
    assert Hopping(ms(size), ms(every)).windows_of(time_ms) == expected
    assert expected


@given(time_ms=times, size=lengths)
def test_hopping_as_far_as_a_window_is_long_is_tumbling(time_ms: int, size: int) -> None:
    assert Hopping(ms(size), ms(size)).windows_of(time_ms) == Tumbling(ms(size)).windows_of(time_ms)


# Sessions -------------------------------------------------------------------------------------------------------------


def test_an_event_exactly_one_gap_later_begins_a_session_of_its_own() -> None:
    window, joined, apart = bridged([(0, 100, "a")], Session(0.1).window_of(100))
    assert (window, joined, apart) == (Window(100, 200), [], [(0, 100, "a")])
    window, joined, apart = bridged([(0, 100, "a")], Session(0.1).window_of(99))
    assert (window, joined, apart) == (Window(0, 199), [(0, 100, "a")], [])


def test_an_event_between_two_sessions_joins_them_and_leaves_the_others() -> None:
    sessions = [(0, 100, "a"), (150, 250, "b"), (400, 500, "c")]
    assert bridged(sessions, Window(60, 160)) == (Window(0, 250), sessions[:2], sessions[2:])


@given(came=st.lists(st.integers(-400, 400), max_size=12), gap=st.integers(1, 90))
def test_sessions_are_times_with_less_than_a_gap_between_them_in_whatever_order_they_come(
    came: list[int], gap: int
) -> None:
    sessions: list[tuple[int, int, list[int]]] = []
    for time_ms in came:
        window, joined, apart = bridged(sessions, Session(ms(gap)).window_of(time_ms))
        held = [time for each in joined for time in each[2]]
        sessions = [*apart, (window.start_ms, window.end_ms, [*held, time_ms])]
    assert sorted((start, end, sorted(held)) for start, end, held in sessions) == naive(came, gap)


def naive(came: list[int], gap: int) -> list[tuple[int, int, list[int]]]:
    """In order of time, cut where there is a gap."""
    groups: list[list[int]] = []
    for time_ms in sorted(came):
        if groups and time_ms - groups[-1][-1] < gap:
            groups[-1].append(time_ms)
        else:
            groups.append([time_ms])
    return [(group[0], group[-1] + gap, group) for group in groups]


# When a window is over ------------------------------------------------------------------------------------------------


def test_a_window_is_over_when_event_time_has_come_to_its_end_and_its_lateness() -> None:
    assert over_ms(100, 50) == 150
    assert is_over(150, 150)
    assert not is_over(150, 149)
    assert not is_over(150, None)


def test_a_window_that_ends_after_the_year_9999_is_over_at_its_last_millisecond() -> None:
    [window] = Tumbling(60).windows_of(TIME_MAX_MS)
    assert window.end_ms > TIME_MAX_MS
    assert over_ms(window.end_ms, 1_000) == TIME_MAX_MS


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, -1, 0.0001, float("nan"), float("inf"), "60", None, True])
@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("Tumbling: size=", Tumbling),
        ("Hopping: size=", lambda length: Hopping(length, 1)),
        ("Hopping: every=", lambda length: Hopping(1, length)),
        ("Session: gap=", Session),
    ],
)
def test_a_length_that_cannot_be_counted_is_refused_by_its_name(
    name: str, made: Callable[[Any], Any], length: object
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}"):
        made(length)


def test_hopping_windows_between_which_an_event_would_be_in_none_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="events between two windows would be in none"):
        Hopping(1, 2)


@pytest.mark.parametrize("made", [Tumbling(60), Hopping(60, 30), Session(60)])
def test_windows_are_values(made: Any) -> None:
    assert pickle.loads(pickle.dumps(made)) == made
    assert len({made, pickle.loads(pickle.dumps(made))}) == 1
