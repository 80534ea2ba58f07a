"""Durations as text, and distributions that lose no value."""

from __future__ import annotations

import pytest

from tpc.chaos.reports.parts import clock, histogram, spread, tallied_checks, took


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "n/a"),
        (0.0, "0.00 s"),
        (9.876, "9.88 s"),
        (75.4, "75 s"),
        (120, "2 min"),
        (1579, "26 min 19 s"),
        (3695, "1 h 1 min"),
    ],
)
def test_a_duration_reads_as_people_say_it(seconds: float | None, text: str) -> None:
    assert took(seconds) == text


def test_a_moment_is_told_to_the_millisecond() -> None:
    assert clock(1_000_000_000.25) == "01:46:40.250"


def test_the_95th_percentile_is_the_nearest_rank() -> None:
    assert spread([float(n) for n in range(20, 0, -1)]) == {"median": 10.5, "p95": 19.0, "max": 20.0}
    assert spread([float(n) for n in range(1, 22)]) == {"median": 11.0, "p95": 20.0, "max": 21.0}
    assert spread([3.0]) == {"median": 3.0, "p95": 3.0, "max": 3.0}
    assert spread([]) is None


@pytest.mark.parametrize("seconds", [[0.0], [0.1, 0.1, 0.3], [1.0, 2.0, 12.0], [5000.0, 1.0]])
def test_every_value_falls_into_one_bin(seconds: list[float]) -> None:
    drawing = histogram(seconds)
    assert drawing is not None
    assert sum(bar["count"] for bar in drawing["bins"]) == len(seconds)
    assert drawing["bins"][-1]["count"] > 0
    assert len(drawing["bins"]) <= 40
    assert all(0 <= mark["left"] <= 100 for mark in drawing["marks"])


def test_no_values_make_no_drawing() -> None:
    assert histogram([]) is None


def test_checks_are_counted_by_name() -> None:
    good, bad = ({"check": "a", "passed": passed} for passed in (True, False))
    other = {"check": "b", "passed": False}
    assert tallied_checks([[good, other], [bad, good, other]]) == [
        {"check": "b", "held": 0, "differed": 2},
        {"check": "a", "held": 2, "differed": 1},
    ]
