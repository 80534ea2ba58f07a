"""Restart strategies: what each waits for after given failures, and when it gives up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tpc.coordinator.operations.supervision.restarts import (
    ExponentialDelay,
    Failure,
    FailureRate,
    FixedDelay,
    RestartStrategy,
)
from tpc.errors import ConfigurationError


def failures(*at_s: float, ran_s: float = 0.1) -> list[Failure]:
    return [Failure(at, ran_s) for at in at_s]


def waits(strategy: RestartStrategy, count: int) -> list[float | None]:
    """What it waits after one failure, after two, and so on."""
    return [strategy.wait_s(failures(*range(number))) for number in range(1, count + 1)]


def without_jitter(**settings: Any) -> ExponentialDelay:
    return ExponentialDelay(jitter_factor=0.0, **settings)


def test_a_fixed_delay_is_the_same_until_its_attempts_are_used_up() -> None:
    assert waits(FixedDelay(attempts=3, delay_s=2.0), 4) == [2.0, 2.0, 2.0, None]


def test_a_fixed_delay_counts_its_attempts_over_the_whole_run_however_long_a_process_ran() -> None:
    assert FixedDelay(attempts=1).wait_s(failures(1.0, 1e6, ran_s=1e6)) is None


def test_without_a_limit_a_fixed_delay_never_gives_up() -> None:
    assert FixedDelay(attempts=None, delay_s=2.0).wait_s(failures(*range(1000))) == 2.0


def test_an_exponential_delay_is_multiplied_up_to_its_bound() -> None:
    strategy = without_jitter(initial_backoff_s=1.0, backoff_multiplier=3.0, max_backoff_s=5.0)
    assert waits(strategy, 4) == [1.0, 3.0, 5.0, 5.0]


def test_after_a_process_that_ran_for_the_threshold_the_backoff_begins_again() -> None:
    strategy = without_jitter(initial_backoff_s=1.0, backoff_multiplier=2.0, reset_backoff_threshold_s=60.0)
    short, long = Failure(0.0, 59.9), Failure(0.0, 60.0)
    assert strategy.wait_s([short, short, short]) == 4.0
    assert strategy.wait_s([short, short, long]) == 1.0
    assert strategy.wait_s([short, long, short]) == 2.0


def test_its_attempts_are_counted_from_the_last_reset() -> None:
    strategy = without_jitter(attempts_before_reset_backoff=2, reset_backoff_threshold_s=60.0)
    short, long = Failure(0.0, 1.0), Failure(0.0, 60.0)
    assert strategy.wait_s([short, short, short]) is None
    assert strategy.wait_s([short, short, long]) is not None
    assert strategy.wait_s([short, long, short, short]) is None


@pytest.mark.parametrize(("chance", "waited_s"), [(0.0, 6.0), (0.5, 8.0), (1.0, 10.0)])
def test_jitter_moves_a_delay_by_a_part_of_itself_up_or_down(chance: float, waited_s: float) -> None:
    strategy = ExponentialDelay(initial_backoff_s=8.0, jitter_factor=0.25, chance=lambda: chance)
    assert strategy.wait_s(failures(0.0)) == waited_s


def test_jitter_never_goes_past_the_bound() -> None:
    strategy = ExponentialDelay(initial_backoff_s=8.0, max_backoff_s=8.0, jitter_factor=0.25, chance=lambda: 1.0)
    assert strategy.wait_s(failures(0.0)) == 8.0


def test_by_default_two_processes_that_failed_together_wait_differently() -> None:
    assert len({ExponentialDelay().wait_s(failures(0.0)) for _ in range(10)}) > 1


def test_ten_thousand_failures_in_a_row_are_waited_for_like_some() -> None:
    assert without_jitter(max_backoff_s=60.0).wait_s(failures(*range(10_000))) == 60.0
    assert without_jitter(initial_backoff_s=0.0).wait_s(failures(*range(10_000))) == 0.0


def test_a_failure_rate_gives_up_at_more_failures_within_the_interval_than_allowed() -> None:
    strategy = FailureRate(max_failures_per_interval=2, interval_s=60.0, delay_s=3.0)
    assert strategy.wait_s(failures(0.0, 60.0)) == 3.0
    assert strategy.wait_s(failures(0.0, 30.0, 60.0)) is None
    assert strategy.wait_s(failures(0.0, 30.0, 60.1)) == 3.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedDelay(attempts=-1),
        lambda: FixedDelay(delay_s=-0.1),
        lambda: FixedDelay(delay_s=math.nan),
        lambda: ExponentialDelay(initial_backoff_s=2.0, max_backoff_s=1.0),
        lambda: ExponentialDelay(backoff_multiplier=0.9),
        lambda: ExponentialDelay(jitter_factor=1.1),
        lambda: ExponentialDelay(reset_backoff_threshold_s=0.0),
        lambda: ExponentialDelay(attempts_before_reset_backoff=-1),
        lambda: FailureRate(max_failures_per_interval=0),
        lambda: FailureRate(interval_s=0.0),
    ],
)
def test_a_strategy_that_cannot_be_followed_is_refused_with_the_rule(make: Callable[[], RestartStrategy]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert caught.value.remedy.startswith("give it values so that ")
