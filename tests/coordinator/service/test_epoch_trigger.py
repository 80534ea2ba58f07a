"""How often an epoch is cut: seconds and numbers of events are distinguished by their type, never guessed."""

from __future__ import annotations

from typing import Any

import pytest

import tpc
from tpc.coordinator.service.epoch_trigger import EVENTS_MAX, EpochTrigger
from tpc.errors import ConfigurationError


def test_seconds_cut_by_time_and_a_whole_number_by_events() -> None:
    assert EpochTrigger.of(tpc.seconds(0.05)) == EpochTrigger(seconds=0.05, events=EVENTS_MAX)
    assert EpochTrigger.of(1000) == EpochTrigger(seconds=None, events=1000)


@pytest.mark.parametrize("said", [0.05, 5.0, "5", "1 second", None, [1]])
def test_what_is_neither_is_refused_with_both_ways_to_say_it(said: Any) -> None:
    with pytest.raises(ConfigurationError, match="neither seconds nor a number of events") as raised:
        EpochTrigger.of(said)
    advised = f"tpc.seconds({said!r})" if isinstance(said, float) else "tpc.seconds(0.05)"
    assert advised in raised.value.remedy
    eval(advised)  # what is advised is taken


@pytest.mark.parametrize("said", [0, tpc.seconds(-1)])
def test_what_would_never_cut_or_lie_in_the_past_is_refused(said: Any) -> None:
    with pytest.raises(ConfigurationError, match="every: "):
        EpochTrigger.of(said)
