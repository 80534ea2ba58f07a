"""Two clocks compared: what the answer took is not held against them."""

from __future__ import annotations

import pytest

from tpc.findings import Level, clocks


@pytest.mark.parametrize("theirs_s", [95.1, 100.0, 101.5, 106.9])
def test_clocks_within_five_seconds_are_fine(theirs_s: float) -> None:
    assert clocks(theirs_s, asked_s=100.0, answered_s=102.0).level is Level.OK


@pytest.mark.parametrize("theirs_s", [94.0, 108.0])
def test_clocks_further_apart_are_a_warning_with_the_difference(theirs_s: float) -> None:
    found = clocks(theirs_s, asked_s=100.0, answered_s=102.0)
    assert (found.level, found.seen) == (Level.WARNING, "6.0 s apart")
    assert "NTP" in found.remedy
