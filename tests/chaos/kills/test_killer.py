"""The killer strikes where the plan says, only after a complete epoch, and leaves nothing alive."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

import psutil
import pytest

from tests.support.processes import runs
from tpc.chaos.kills.events import Killed, Silence, StepReached
from tpc.chaos.kills.killer import Killer
from tpc.chaos.kills.plan import Kill, Step, StepKill, TimedKill, kill_plan
from tpc.coordinator.operations.supervision.restarts import FixedDelay
from tpc.coordinator.operations.supervision.supervisor import SupervisorEvent, supervise
from tpc.support.deadlines import Deadline

pytestmark = pytest.mark.slow  # processes of their own

ROOT = Path(__file__).parents[2]


@dataclass
class Run:
    """What a killed toy pipeline left."""

    code: int
    kills: list[Killed]
    steps: list[StepReached] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    failure: Exception | None = None


def run(directory: Path, plan: tuple[Kill, ...], epochs: int, **settings: Any) -> Run:
    """`settings` are the killer's."""
    steps: list[StepReached] = []
    silences: list[Silence] = []
    done = directory / "done"

    def on_event(event: SupervisorEvent) -> None:
        if event.kind == "started":
            killer.watch(event.process)

    with Killer(plan, on_step=steps.append, on_silence=silences.append, **settings) as killer:
        program = ["tests.chaos.kills.toy_pipeline", str(done), str(epochs)]
        code = supervise(
            [sys.executable, "-m", "tpc.chaos.kills.step_reporter", killer.address, *program],
            strategy=FixedDelay(attempts=len(plan) + 1, delay_s=0.01),
            on_event=on_event,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
        )
    return Run(code, killer.kills, steps, done.read_text().split(), silences, killer.failure)


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


def test_a_life_that_tells_its_steps_is_not_silent_however_long_it_takes() -> None:
    silences: list[Silence] = []
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    telling = Deadline(3.0)
    with Killer((), silent_s=2.0, on_silence=silences.append) as killer:
        killer.watch(process.pid)
        while not telling.passed:
            assert may_go_on(killer, "pass.prepare"), "it was killed while it told its steps"
            sleep(0.1)
        assert process.wait(30) == -9
    assert silences == [Silence(1, "pass.prepare", 2.0)]


def may_go_on(killer: Killer, step: str) -> bool:
    """What the killer answers to a step; no answer, as for one that is to be killed, is no."""
    host, _, port = killer.address.rpartition(":")
    report = {"step": step, "pid": os.getpid(), "epoch": 0, "sink": "kafka", "partition": 0}
    with socket.create_connection((host, int(port)), timeout=5.0) as connection:
        connection.sendall(json.dumps(report).encode() + b"\n")
        try:
            return connection.recv(1) == b"."
        except TimeoutError:
            return False


def test_a_driver_that_has_ended_is_not_silent() -> None:
    silences: list[Silence] = []
    another = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        with Killer((), silent_s=0.2, on_silence=silences.append) as killer:
            killer.watch(another.pid)  # whose process the number may be by now
            killer.ended()
            sleep(0.5)
        assert another.poll() is None and silences == []
    finally:
        another.kill()
        another.wait()


def test_an_error_of_who_is_told_of_a_kill_is_kept_and_the_run_goes_no_further(tmp_path: Path) -> None:
    def full(_kill: Killed) -> None:
        raise OSError("the disk is full")

    result = run(tmp_path, (StepKill(Step.BEFORE_INTENT), StepKill(Step.BEFORE_INTENT)), epochs=20, on_kill=full)
    assert str(result.failure) == "the disk is full"
    assert (result.code, len(result.kills)) == (-9, 1)
    assert result.done == ["0"]


def test_a_kill_takes_processes_in_other_groups_along(tmp_path: Path) -> None:
    result = run(tmp_path, (StepKill(Step.BEFORE_INTENT),), epochs=2)
    children = [int(path.name.split("-")[1]) for path in tmp_path.glob("child-*")]
    assert result.kills[0].processes == 2
    assert len(children) == 2
    assert not any(runs(child) for child in children)


def test_a_program_whose_killer_is_gone_ends(tmp_path: Path) -> None:
    with Killer(()) as killer:
        address = killer.address
    program = ["tests.chaos.kills.toy_pipeline", str(tmp_path / "done"), "1"]
    ended = subprocess.run(
        [sys.executable, "-m", "tpc.chaos.kills.step_reporter", address, *program],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for path in tmp_path.glob("child-*"):
        psutil.Process(int(path.name.split("-")[1])).kill()
    assert ended.returncode != 0
    assert "nobody answers" in ended.stderr
