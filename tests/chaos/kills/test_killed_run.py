"""A kill comes where the plan says, only after a complete epoch, and leaves nothing alive."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import runs
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.kills.events import Killed, Silence
from tpc.chaos.kills.killed_run import KilledRun
from tpc.chaos.kills.plan import Kill, Step, StepKill, TimedKill, kill_plan

pytestmark = pytest.mark.slow  # processes of their own

ROOT = Path(__file__).parents[2]


@dataclass
class Run:
    """What a killed toy pipeline left."""

    code: int
    kills: list[Killed]
    steps: list[StepHit] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)


def run(directory: Path, plan: tuple[Kill, ...], epochs: int, **settings: Any) -> Run:
    """`settings` are the run's."""
    steps: list[StepHit] = []
    silences: list[Silence] = []
    done = directory / "done"
    killed = KilledRun(
        ("tests.chaos.kills.toy_pipeline", str(done), str(epochs)),
        plan,
        place=directory / "steps",
        log=directory / "log",
        environment={**os.environ, "PYTHONPATH": str(ROOT)},
        on_step=steps.append,
        on_silence=silences.append,
        spare_restarts=1,
        **settings,
    )
    return Run(killed.run(), killed.kills, steps, done.read_text().split(), silences)


@pytest.mark.parametrize("step", Step)
def test_a_kill_comes_at_its_step_after_a_complete_epoch(step: Step, tmp_path: Path) -> None:
    result = run(tmp_path, (StepKill(step, epochs=2),), epochs=5)
    assert result.code == 0
    assert [(kill.step, kill.epoch, kill.epochs_since_restart) for kill in result.kills] == [(step.value, 2, 2)]
    assert result.done == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("sinks", [1, 2])
def test_between_two_commits_some_sinks_have_committed_and_others_have_not(sinks: int, tmp_path: Path) -> None:
    result = run(tmp_path, (StepKill(Step.BETWEEN_COMMITS, epochs=1, nth=sinks),), epochs=3)
    at_the_kill = [
        reached for reached in result.steps if reached.where.get("epoch") == 1 and reached.at <= result.kills[0].at
    ]
    committed = [reached.where["sink"] for reached in at_the_kill if reached.step == "sink.committed"]
    assert len(committed) == sinks


def test_more_sinks_than_there_are_is_a_kill_that_waits_for_no_one_and_never_comes(tmp_path: Path) -> None:
    result = run(tmp_path, (StepKill(Step.BETWEEN_COMMITS, epochs=1, nth=3),), epochs=3)
    assert (result.code, result.kills) == (0, [])


def test_a_timed_kill_comes_after_a_complete_epoch(tmp_path: Path) -> None:
    result = run(tmp_path, (TimedKill(0.0),), epochs=200)
    assert [kill.step for kill in result.kills] == [None]
    assert result.kills[0].epochs_since_restart >= 1


def test_every_kill_of_a_plan_is_carried_out_in_order(tmp_path: Path) -> None:
    plan = tuple(kill for kill in kill_plan(2) if isinstance(kill, StepKill))
    result = run(tmp_path, plan, epochs=40)
    assert [kill.step for kill in result.kills] == [kill.step.value for kill in plan]
    assert all(kill.epochs_since_restart >= 1 for kill in result.kills)


def test_a_life_that_begins_when_the_time_is_over_is_spared(tmp_path: Path) -> None:
    result = run(tmp_path, (StepKill(Step.BEFORE_INTENT), StepKill(Step.BEFORE_INTENT)), epochs=6, for_s=0.0)
    assert result.code == 0
    assert [kill.epoch for kill in result.kills] == [1], "the first life began when there was time"


def test_a_life_in_which_nothing_happens_any_more_is_ended_and_the_next_goes_on(tmp_path: Path) -> None:
    (tmp_path / "stuck-2").touch()
    result = run(tmp_path, (StepKill(Step.BEFORE_INTENT, epochs=4),), epochs=6, silent_s=5.0)
    assert result.silences == [Silence(1, "epoch.completed", 5.0)]
    assert (result.code, result.kills) == (0, [])
    assert result.done == ["0", "1", "2", "3", "4", "5"]


def test_a_life_that_goes_on_is_not_silent_however_long_it_takes(tmp_path: Path) -> None:
    (tmp_path / "slow").touch()
    result = run(tmp_path, (), epochs=12, silent_s=3.0)
    assert (result.code, result.silences) == (0, [])
    assert result.steps[-1].at - result.steps[0].at > 3.0, "it took no longer than one may be silent"


def test_an_error_of_who_is_told_of_a_kill_ends_the_run(tmp_path: Path) -> None:
    def full(_kill: Killed) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        run(tmp_path, (StepKill(Step.BEFORE_INTENT), StepKill(Step.BEFORE_INTENT)), epochs=20, on_kill=full)
    assert (tmp_path / "done").read_text().split() == ["0"]


def test_an_error_of_who_is_told_of_a_step_ends_the_run_and_its_processes(tmp_path: Path) -> None:
    def lost(_step: StepHit) -> None:
        raise ValueError("no such column")

    (tmp_path / "slow").touch()
    killed = KilledRun(
        ("tests.chaos.kills.toy_pipeline", str(tmp_path / "done"), "200"),
        (),
        place=tmp_path / "steps",
        log=tmp_path / "log",
        environment={**os.environ, "PYTHONPATH": str(ROOT)},
        on_step=lost,
    )
    with pytest.raises(ValueError, match="no such column"):
        killed.run()
    assert [life.code for life in killed.lives] == [-9]


def test_a_kill_takes_processes_in_other_groups_along(tmp_path: Path) -> None:
    result = run(tmp_path, (StepKill(Step.BEFORE_INTENT),), epochs=2)
    children = [int(path.name.split("-")[1]) for path in tmp_path.glob("child-*")]
    assert result.kills[0].processes == 2
    assert len(children) == 2
    assert not any(runs(child) for child in children)
