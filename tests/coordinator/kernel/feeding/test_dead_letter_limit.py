"""Too many dead letters: of the last whole epochs, as the log has them, and never fewer than the least number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.core.builders import begun, complete, intent, manifest
from tpc.coordinator.kernel.feeding import dead_letter_limit as module
from tpc.coordinator.kernel.feeding.dead_letter_limit import COUNT, DeadLetterLimit, Tally
from tpc.errors import ConfigurationError
from tpc.history import History


def history(*counts: Mapping[str, int]) -> History:
    """Complete epochs with these counts."""
    bodies = []
    for epoch, counted in enumerate(counts):
        bodies += [intent(replace(manifest(epoch, {"dead": 2}), counts=dict(counted))), complete(epoch)]
    return begun(*bodies)


def test_what_epochs_of_before_had_counts_too() -> None:
    before = history({"rows": 10, COUNT: 1}, {"rows": 10, COUNT: 2})
    assert DeadLetterLimit("dead", 0.2, 1).too_many(3, 10, before) is None  # 6 of 30
    assert DeadLetterLimit("dead", 0.19, 1).too_many(3, 10, before) == Tally(6, 30)


def test_no_epoch_without_a_letter_ends_anything_whatever_came_before() -> None:
    assert DeadLetterLimit("dead", 0.0, 1).too_many(0, 10, history({"rows": 10, COUNT: 10})) is None


def test_epochs_before_the_last_events_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 20)
    before = history({"rows": 10, COUNT: 10}, {"rows": 10, COUNT: 0})
    assert DeadLetterLimit("dead", 0.3, 1).too_many(1, 10, before) is None  # 1 of the last 20, and 11 of all 30
    monkeypatch.setattr(module, "WINDOW", 21)
    assert DeadLetterLimit("dead", 0.3, 1).too_many(1, 10, before) == Tally(11, 30)


def test_fewer_than_the_least_number_are_never_too_many() -> None:
    bound = DeadLetterLimit("dead", 0.0, 3)
    assert bound.too_many(2, 2, history()) is None
    assert bound.too_many(3, 3, history()) == Tally(3, 3)


def test_an_event_that_two_functions_refuse_counts_once_for_the_share() -> None:
    assert DeadLetterLimit("dead", 1.0, 1).too_many(2, 1, history()) is None


def test_an_epoch_of_an_earlier_version_counts_all_rows_of_the_sink() -> None:
    assert DeadLetterLimit("dead", 0.0, 1).count_in(manifest(0, {"dead": 2})) == 6
    assert DeadLetterLimit("dead", 0.0, 1).count_in(manifest(0, {"other": 2})) == 0


@pytest.mark.parametrize(("max_share", "at_least"), [(-0.1, 1), (1.1, 1), (0.5, 0)])
def test_a_bound_that_is_none_is_refused_with_the_sink(max_share: float, at_least: int) -> None:
    with pytest.raises(ConfigurationError, match=f"max_share={max_share} and at_least={at_least}") as caught:
        DeadLetterLimit("dead", max_share, at_least)
    assert caught.value.sink == "dead"


@pytest.mark.parametrize(("max_share", "at_least"), [(0.0, 1), (1.0, 1)])
def test_a_bound_at_its_limits_is_one(max_share: float, at_least: int) -> None:
    assert DeadLetterLimit("dead", max_share, at_least).max_share == max_share
