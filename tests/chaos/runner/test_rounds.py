"""Every fault is made in a life of its own, a stopped driver gets a successor, and nothing outlives the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import psutil
import pytest

from tests.chaos.runner.toy_life import number
from tpc.chaos.faults import fault as faults
from tpc.chaos.faults import hits as hits_of
from tpc.chaos.faults.fault import StepFault
from tpc.chaos.faults.injector import HITS_FILE
from tpc.chaos.runner.attempts import PlannedFault, recovery_s
from tpc.chaos.runner.lives import LifeProcesses
from tpc.chaos.runner.rounds import Rounds
from tpc.chaos.user.account import read_account
from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED
from tpc.support.deadlines import Deadline

pytestmark = pytest.mark.slow  # processes of their own

ROOT = Path(__file__).parents[3]
FAR = Deadline(float("inf"))
KILL = PlannedFault("kill", StepFault("epoch.planned", faults.KILL_DRIVER))
ERROR = PlannedFault("error", StepFault("epoch.completed", faults.ERROR))
ZOMBIE = PlannedFault("zombie", StepFault("epoch.planned", faults.ZOMBIE))
NOWHERE = PlannedFault("kill", StepFault("sink.commit", faults.KILL_DRIVER))


def toy_processes(place: Path) -> LifeProcesses:
    program = ("tests.chaos.runner.toy_life", str(place))
    return LifeProcesses(program, place / "steps", place / "log", limit_s=30.0)


@dataclass
class Run:
    """A toy pipeline in `place`; `rounds` runs it."""

    place: Path
    rounds: Rounds

    def disturbed(self, *planned: PlannedFault, epochs: int = 3, deadline: Deadline = FAR, at_most: int = 3) -> bool:
        (self.place / "input").write_text(str(number(self.place / "input") + epochs))
        return self.rounds.disturbed(iter(planned), deadline, at_most=at_most)

    @property
    def codes(self) -> list[int | None]:
        return [life.code for life in self.rounds.processes.lives]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with toy_processes(tmp_path) as processes:
        yield Run(tmp_path, Rounds(processes, {**os.environ, "PYTHONPATH": str(ROOT)}))


def test_each_life_gets_one_fault_and_the_round_comes_to_its_end(run: Run) -> None:
    assert run.disturbed(KILL, ERROR)
    assert run.codes == [-9, 1, 0]
    assert [(attempt.planned, attempt.wrong) for attempt in run.rounds.attempts] == [(KILL, ""), (ERROR, "")]
    assert [attempt.next and attempt.next.number for attempt in run.rounds.attempts] == [2, 3]
    assert number(run.place / "done") == 3


def test_a_stopped_driver_ends_fenced_after_its_successor_has_ended(run: Run) -> None:
    assert run.disturbed(ZOMBIE)
    [attempt] = run.rounds.attempts
    assert attempt.wrong == "" and attempt.lives[0].code == EXIT_FENCED
    assert attempt.next is not None and attempt.next.code == 0
    assert attempt.lives[0].ended_at is not None and attempt.next.ended_at is not None
    assert attempt.lives[0].ended_at > attempt.next.ended_at


def test_a_stopped_driver_that_its_successor_kills_is_no_end_without_a_reason(run: Run) -> None:
    (run.place / "deposes").touch()
    assert run.disturbed(ZOMBIE)
    [attempt] = run.rounds.attempts
    assert (attempt.lives[0].code, attempt.lives[0].deposed, attempt.wrong) == (-9, True, "")
    assert attempt.next is not None and attempt.next.code == 0
    assert not any(life.ended_by_itself for life in run.rounds.processes.lives)
    others = [life for life in run.rounds.processes.lives if life not in (attempt.lives[0], attempt.next)]
    assert all(life.started_at > (attempt.next.ended_at or 0) for life in others), "one began beside the successor"


def test_a_fault_whose_place_is_not_reached_is_tried_twice_and_then_given_up(run: Run) -> None:
    planned = iter([NOWHERE, KILL])
    for _ in range(3):
        (run.place / "input").write_text(str(number(run.place / "input") + 1))
        assert run.rounds.disturbed(planned, FAR, at_most=3)
    assert [len(attempt.lives) for attempt in run.rounds.attempts] == [2, 1]
    assert [attempt.fired is not None for attempt in run.rounds.attempts] == [False, True]


def test_a_round_makes_at_most_so_many_faults_and_none_when_the_time_is_over(run: Run) -> None:
    assert run.disturbed(*repeat(KILL, 9), at_most=2)
    assert len(run.rounds.attempts) == 2
    assert run.disturbed(*repeat(KILL, 9), deadline=Deadline(0))
    assert len(run.rounds.attempts) == 2


def test_a_pipeline_that_ends_by_itself_again_and_again_is_given_up(run: Run) -> None:
    (run.place / "broken").touch()
    assert not run.disturbed()
    assert run.codes == [1, 1, 1]
    assert all(life.ended_by_itself for life in run.rounds.processes.lives)


def test_a_life_that_does_not_end_is_given_up(run: Run) -> None:
    run.rounds.processes.limit_s = 0.5
    (run.place / "stuck").touch()
    assert not run.disturbed()
    assert [life.given_up for life in run.rounds.processes.lives] == ["not ended after 0.5 s (--life-limit)"] * 3


def test_a_life_that_ends_with_0_before_the_end_of_its_input_has_not_come_to_its_end(run: Run) -> None:
    (run.place / "leaves early").touch()
    assert not run.disturbed()
    [life] = run.rounds.processes.lives
    assert (life.code, life.left_early, life.ended_by_itself) == (0, True, True)


def test_a_life_that_leaves_early_after_a_fault_is_no_recovery(run: Run) -> None:
    (run.place / "leaves early").touch()
    assert not run.disturbed(KILL)
    [attempt] = run.rounds.attempts
    assert attempt.wrong == "life 2 ended with exit code 0 before the end of its input"


def test_in_peace_a_life_that_does_not_end_is_not_tried_again(run: Run) -> None:
    run.rounds.processes.limit_s = 0.5
    (run.place / "stuck").touch()
    assert not run.rounds.in_peace(run.place / "account")
    assert [life.overdue for life in run.rounds.processes.lives] == [True]


def test_nothing_lives_on_when_the_run_is_left_in_the_middle(tmp_path: Path) -> None:
    processes = toy_processes(tmp_path)
    (tmp_path / "stuck").touch()

    with pytest.raises(KeyboardInterrupt), processes:
        orders = tmp_path / "steps" / "orders.json"
        processes.give_orders(orders, None)
        process = psutil.Popen(
            processes.command(orders), env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True
        )
        processes.began(process.pid, 1, None)
        raise KeyboardInterrupt
    assert process.wait(10) == -9


def test_a_life_in_peace_leaves_an_account(run: Run) -> None:
    (run.place / "input").write_text("2")
    assert run.rounds.in_peace(run.place / "account")
    account = read_account(run.place / "account")
    assert account is not None and account.epochs == 2


def test_recovery_ends_with_the_first_complete_epoch_of_the_next_life(run: Run) -> None:
    assert run.disturbed(KILL)
    after = run.rounds.attempts[0].next
    hits = hits_of.read(run.place / "steps" / HITS_FILE)
    assert after is not None and after.ended_at is not None
    recovered = recovery_s(after, hits)
    assert recovered is not None and 0 < recovered < after.ended_at - after.started_at
