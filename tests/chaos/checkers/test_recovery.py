"""Recovery passes when every restart came to a new epoch in time; a slow one fails, and one that never did."""

from __future__ import annotations

from tpc.chaos.checkers.compare import recovery_bounded


def test_restarts_within_the_bound_pass_with_median_and_longest() -> None:
    check = recovery_bounded("recovery", [1.0, 4.0, 2.5, 5.0], bound_s=5.0)
    assert check.passed
    assert check.numbers == {"restarts": 4, "median_ms": 3250, "max_ms": 5000}


def test_a_slow_restart_is_named() -> None:
    check = recovery_bounded("recovery", [1.0, 5.1], bound_s=5.0)
    assert not check.passed
    assert check.differences == ("restart 2: 5.1 s",)


def test_a_restart_that_never_came_to_a_new_epoch_is_named() -> None:
    check = recovery_bounded("recovery", [None, 1.0], bound_s=5.0)
    assert not check.passed
    assert check.differences == ("restart 1: never came to a new epoch",)
    assert not recovery_bounded("recovery", [None], bound_s=5.0).passed


def test_a_run_without_restarts_passes() -> None:
    assert recovery_bounded("recovery", [], bound_s=5.0).detail == "no restart"
