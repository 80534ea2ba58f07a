"""A kill is due at its step and not before an epoch of the same life is complete; of two commits one waits."""

from __future__ import annotations

import pytest

from tpc.chaos.faults.progress import Answer, LifeProgress
from tpc.chaos.kills.plan import Kill, Step, StepKill, TimedKill

GO_ON, HOLD, DUE = Answer.GO_ON, Answer.HOLD, Answer.DUE


def answers(progress: LifeProgress, kill: Kill | None, epoch: int, *steps: str) -> list[Answer]:
    """A step may have a sink behind a blank."""
    words = [step.partition(" ") for step in steps]
    fault = None if kill is None else kill.fault
    return [progress.answer(fault, step, {"epoch": epoch, "sink": sink}) for step, _, sink in words]


def after_an_epoch(kill: Kill) -> LifeProgress:
    progress = LifeProgress()
    assert set(answers(progress, kill, 0, "epoch.prepared", "epoch.decided", "epoch.completed")) == {GO_ON}
    return progress


@pytest.mark.parametrize("step", ["epoch.prepared", "epoch.decided", "epoch.committed", "epoch.completed"])
def test_a_life_that_has_completed_no_epoch_goes_on(step: str) -> None:
    for planned in Step:
        assert answers(LifeProgress(), StepKill(planned), 0, step) == [GO_ON]


def test_an_epoch_that_recovery_finishes_is_none_of_the_life_s() -> None:
    progress = LifeProgress()
    answers(progress, None, 0, "epoch.committed", "epoch.completed")
    assert progress.complete == 0


def test_the_epoch_at_whose_end_a_kill_comes_is_not_one_before_it() -> None:
    kill = StepKill(Step.BEFORE_SPARK_COMMIT)
    progress = after_an_epoch(kill)
    assert answers(progress, kill, 1, "epoch.prepared", "epoch.completed") == [GO_ON, DUE]
    assert progress.complete == 1


def test_the_nth_branch_of_a_pass_is_that_of_the_running_pass() -> None:
    kill = StepKill(Step.DURING_PASS, nth=2)
    progress = LifeProgress()
    answers(progress, kill, 0, "pass.prepare", "epoch.prepared", "epoch.completed")
    assert answers(progress, kill, 1, "pass.prepare", "pass.prepare") == [GO_ON, DUE]


def test_between_two_commits_the_other_sink_waits_for_the_kill() -> None:
    kill = StepKill(Step.BETWEEN_COMMITS)
    progress = after_an_epoch(kill)
    assert answers(progress, kill, 1, "epoch.prepared", "epoch.decided") == [GO_ON, GO_ON]
    steps = ("sink.commit a", "sink.commit b", "sink.committed a")
    assert answers(progress, kill, 1, *steps) == [GO_ON, HOLD, DUE]


def test_a_sink_that_comes_when_enough_have_committed_brings_the_kill() -> None:
    kill = StepKill(Step.BETWEEN_COMMITS)
    progress = after_an_epoch(kill)
    answers(progress, kill, 1, "epoch.prepared", "epoch.decided")
    assert answers(progress, kill, 1, "sink.commit a", "sink.committed a", "sink.commit b") == [GO_ON, GO_ON, DUE]


def test_a_timed_kill_s_time_begins_with_the_end_of_the_first_epoch_that_the_life_has_run_itself() -> None:
    progress, kill = LifeProgress(), TimedKill(1.0)
    assert answers(progress, kill, 0, "epoch.committed", "epoch.completed") == [GO_ON, GO_ON]
    assert answers(progress, kill, 1, "epoch.prepared", "epoch.decided", "epoch.completed") == [GO_ON, GO_ON, DUE]


def test_without_a_kill_every_step_goes_on_and_epochs_are_counted() -> None:
    progress = LifeProgress()
    for epoch in range(3):
        steps = ("pass.prepare", "epoch.prepared", "epoch.decided", "sink.commit a", "epoch.committed")
        assert set(answers(progress, None, epoch, *steps, "epoch.completed")) == {GO_ON}
    assert progress.complete == 3
