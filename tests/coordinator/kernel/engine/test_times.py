"""How long phases took, and when a sweep or a new term is due."""

from __future__ import annotations

import pytest

from tests.support.memory import MemoryClock
from tpc.coordinator.kernel.engine.settings import EngineSettings
from tpc.coordinator.kernel.engine.times import PhaseClock, UpkeepClock
from tpc.history import History


@pytest.fixture
def clock() -> MemoryClock:
    return MemoryClock()


def test_a_phase_takes_the_time_since_the_one_before_it_ended(clock: MemoryClock) -> None:
    phases = PhaseClock(clock)
    clock.advance(2.0)
    phases.end("pass")
    clock.advance(0.5)
    phases.end("gather")
    assert phases.seconds == {"pass": 2.0, "gather": 0.5}


def test_a_phase_that_ends_twice_has_both_times(clock: MemoryClock) -> None:
    phases = PhaseClock(clock)
    for seconds in (2.0, 3.0):
        clock.advance(seconds)
        phases.end("commit")
    assert phases.seconds == {"commit": 5.0}


def test_a_new_epoch_begins_with_no_phases(clock: MemoryClock) -> None:
    phases = PhaseClock(clock)
    clock.advance(2.0)
    phases.end("pass")
    phases.begin()
    assert (phases.seconds, phases.started_at) == ({}, clock.wall())


def test_a_sweep_is_due_an_interval_after_the_last_one(clock: MemoryClock) -> None:
    upkeep = UpkeepClock(clock, EngineSettings(sweep_interval_s=30.0))
    clock.advance(29.0)
    assert not upkeep.is_sweep_due()
    clock.advance(1.0)
    assert upkeep.is_sweep_due()
    upkeep.swept()
    assert not upkeep.is_sweep_due()


def test_a_term_is_old_when_the_sinks_have_not_heard_of_it_for_long(clock: MemoryClock) -> None:
    upkeep = UpkeepClock(clock, EngineSettings(renew_after_s=100.0))
    history = History(generation_slots=((1, None),))
    clock.advance(99.0)
    assert not upkeep.is_renewal_due(history)
    clock.advance(1.0)
    assert upkeep.is_renewal_due(history)
    upkeep.owned()
    assert not upkeep.is_renewal_due(history)


@pytest.mark.parametrize(
    ("claimed_after", "last_complete", "due"),
    [(None, None, False), (None, 2, False), (None, 3, True), (10, 13, False), (10, 14, True)],
)
def test_a_term_is_old_when_it_has_completed_more_epochs_than_it_may(
    clock: MemoryClock, claimed_after: int | None, last_complete: int | None, due: bool
) -> None:
    upkeep = UpkeepClock(clock, EngineSettings(renew_after_epochs=3))
    history = History(last_complete=last_complete, generation_slots=((5, claimed_after),))
    assert upkeep.is_renewal_due(history) is due
