"""Where a program is killed, and which kills count."""

from __future__ import annotations

import pytest

from tpc.chaos.faults.hits import StepHit
from tpc.chaos.programs.catalogue import PROGRAMS
from tpc.chaos.programs.kill_plan import AFTER, AFTER_INTENT, BEFORE, BETWEEN, KILLS, PREPARED, check_kills, kill_plan
from tpc.chaos.runner.attempts import Attempt, Life


@pytest.mark.parametrize("seed", range(30))
def test_each_kill_has_its_own_epoch_two_after_the_intent_one_with_branches_to_abort(seed: int) -> None:
    plan = [planned.fault for planned in kill_plan("p", seed, epochs=10)]
    epochs = [fault.epoch for fault in plan if fault.epoch is not None]
    assert len(plan) == KILLS and epochs == sorted(set(epochs)) and set(epochs) <= set(range(10))
    assert sum(fault.step in AFTER for fault in plan) >= AFTER_INTENT
    assert any(fault.step in PREPARED for fault in plan)
    assert any(fault.step == BETWEEN for fault in plan)


@pytest.mark.parametrize("seed", range(10))
def test_epochs_without_rows_are_left_alone(seed: int) -> None:
    assert min(planned.fault.epoch or 0 for planned in kill_plan("p", seed, epochs=8, quiet=2)) >= 2


def test_the_same_seed_gives_the_same_plan_and_over_some_seeds_every_step_is_hit() -> None:
    assert kill_plan("p", 3, 10) == kill_plan("p", 3, 10)
    assert {planned.fault.step for seed in range(30) for planned in kill_plan("p", seed, 10)} == {*BEFORE, *AFTER}


def test_each_program_is_killed_at_steps_of_its_own() -> None:
    assert len({tuple(kill.fault.step for kill in kill_plan(name, 1, 10)) for name in PROGRAMS}) > len(PROGRAMS) / 2


def attempts() -> list[Attempt]:
    """Kills in the epochs 0 to 4, each a second after the epoch has begun."""
    life = Life(1, 1, 1, 0.0, 0, code=-9)
    plan = kill_plan("p", 1, KILLS)
    return [
        Attempt(n + 1, plan[n], [life], {"step": plan[n].fault.step, "epoch": n, "at": 10 * n + 1.0}) for n in range(5)
    ]


def begun(*epochs: int) -> list[StepHit]:
    return [StepHit(10.0 * epoch, 1, 1, "epoch.planned", {"epoch": epoch}) for epoch in epochs]


def decided(*epochs: int) -> list[StepHit]:
    return [StepHit(10 * e + 0.5, 1, 1, "log.stored", {"epoch": e, "kind": "intent"}) for e in epochs]


def test_five_kills_within_epochs_of_which_two_are_after_the_intent_are_enough() -> None:
    assert check_kills(attempts(), begun(0, 1, 2, 3, 4) + decided(1, 3)).passed


def test_a_kill_counts_only_with_an_epoch_begun_and_not_complete() -> None:
    assert not check_kills(attempts(), begun(0, 1, 2, 3) + decided(1, 3)).passed
    complete = StepHit(40.5, 1, 1, "epoch.completed", {"epoch": 4})
    assert not check_kills(attempts(), [*begun(0, 1, 2, 3, 4), *decided(1, 3), complete]).passed


def test_one_kill_after_the_intent_is_too_few() -> None:
    assert not check_kills(attempts(), begun(0, 1, 2, 3, 4) + decided(1)).passed
