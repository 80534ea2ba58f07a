"""The plan of kills follows from the seed and hits every step."""

from __future__ import annotations

import pytest

from tpc.chaos.kills.plan import Step, StepKill, TimedKill, epochs_needed, kill_plan


def steps(seed: int, kills: int) -> set[Step]:
    return {kill.step for kill in kill_plan(seed, kills) if isinstance(kill, StepKill)}


@pytest.mark.parametrize("seed", range(1, 7))
def test_every_seed_hits_every_step_and_three_wall_times(seed: int) -> None:
    plan = kill_plan(seed)
    assert len(plan) == 9
    assert steps(seed, 9) == set(Step)
    assert sum(isinstance(kill, TimedKill) for kill in plan) == 3


def test_the_same_seed_gives_the_same_plan() -> None:
    assert kill_plan(3, 20) == kill_plan(3, 20)


def test_different_seeds_give_different_plans() -> None:
    assert len({kill_plan(seed) for seed in range(1, 7)}) == 6


def test_six_kills_of_six_seeds_hit_every_step() -> None:
    assert set().union(*(steps(seed, 6) for seed in range(1, 7))) == set(Step)


def test_a_longer_plan_begins_like_a_shorter_one() -> None:
    assert kill_plan(5, 20)[:9] == kill_plan(5, 9)


def test_no_kills_is_a_plan_too() -> None:
    assert kill_plan(1, 0) == ()


@pytest.mark.parametrize("kills", [1, 9, 18])
def test_there_is_an_epoch_before_every_kill(kills: int) -> None:
    assert epochs_needed(kill_plan(1, kills)) > 2 * kills
