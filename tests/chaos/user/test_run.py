"""A run makes faults of the kinds that were asked for and no others, and what it has seen stays, however it ends."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.chaos.runner.toy_life import number
from tpc.chaos.runner.lives import LifeProcesses
from tpc.chaos.user.command import run_user_pipeline
from tpc.chaos.user.directory import UserRunDirectory
from tpc.chaos.user.run import UserRun
from tpc.chaos.user.target import Target
from tpc.errors import ConfigurationError, LocalStackError

pytestmark = pytest.mark.slow  # processes of their own

ROOT = Path(__file__).parents[3]
MINUTES = 0.05

JOB = """
import os
from pathlib import Path

INPUT = Path(os.environ["TPC_CHAOS_DIR"]) / "input"

def pipeline(): ...
def feed(round):
    {feed}
    INPUT.write_text(str(3 * round))
def expected(): return {{"mine": [{{"id": 1}}]}}
readers = {{"mine": lambda: [{{"id": 1}}]}}
"""


def toy_command(processes: LifeProcesses, orders: Path) -> list[str]:
    return [sys.executable, "-m", "tests.chaos.runner.toy_life", str(orders), str(processes.log.parent / "work")]


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserRunDirectory:
    """A run's place, where lives are those of the toy pipeline."""
    monkeypatch.setattr(LifeProcesses, "command", toy_command)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return UserRunDirectory(tmp_path / "out")


def left_in(paths: UserRunDirectory) -> list[str]:
    return sorted(path.name for path in paths.root.iterdir())


def user_run(paths: UserRunDirectory, *kinds: str, **settings: Any) -> UserRun:
    """On the input that is there, six epochs: the target has no feed."""
    paths.claim()
    (paths.work / "input").write_text("6")
    rows = [{"id": 1}]
    target = Target("toy:pipeline", lambda: {"mine": rows}, None, {"mine": lambda: rows})
    return UserRun(target, paths, kinds, 1, lambda _line: None, **settings)


@pytest.mark.parametrize("kind", ["kill", "exit", "error", "hang", "zombie"])
def test_without_feed_every_fault_is_of_the_kind_asked_for(kind: str, paths: UserRunDirectory) -> None:
    made = user_run(paths, kind)
    outcome = made.run(MINUTES)
    assert {attempt.planned.kind for attempt in outcome.attempts if attempt.fired} == {kind}
    assert outcome.attempts[0].planned.fault.step in ("epoch.committed", "epoch.completed")
    assert [check.name for check in outcome.checks if not check.passed] == []


def test_a_kill_that_only_shows_the_steps_is_no_fault_made(paths: UserRunDirectory) -> None:
    made = user_run(paths, "worker")
    with pytest.raises(ConfigurationError, match="no step that was reached is a place for it"):
        made.run(MINUTES)
    assert made.processes.lives[0].code == -9
    assert number(paths.work / "done") == 6


def test_kinds_that_have_no_place_are_refused_by_name_after_the_round_in_peace(paths: UserRunDirectory) -> None:
    made = user_run(paths, "worker")
    made.target = replace(made.target, feed=lambda _round: None)
    with pytest.raises(ConfigurationError, match="--faults worker") as refused:
        made.run(MINUTES)
    assert "a service has no Python workers" in refused.value.remedy
    assert [life.code for life in made.processes.lives] == [0]


def test_a_first_round_that_takes_too_long_is_told_with_its_limit_and_the_option(
    paths: UserRunDirectory,
) -> None:
    made = user_run(paths, "kill", life_limit_s=1.0)
    (paths.work / "stuck").touch()
    with pytest.raises(LocalStackError, match="the first round took longer than 1 s") as given_up:
        made.run(MINUTES)
    assert "--life-limit" in given_up.value.remedy


Run = Callable[[str], tuple[int, str]]


@pytest.fixture
def run(paths: UserRunDirectory, tmp_path: Path) -> Run:
    """Runs a target whose `feed` begins with these words; the exit code and what stood on the terminal."""

    def ran(feed: str) -> tuple[int, str]:
        name = f"left_{abs(hash(feed))}"
        (tmp_path / f"{name}.py").write_text(JOB.format(feed=feed))
        shown = io.StringIO()
        console = Console(file=shown, width=200, highlight=False)
        code = run_user_pipeline(
            f"{name}:pipeline", faults="kill", minutes=MINUTES, directory=paths.root, console=console
        )
        return code, shown.getvalue()

    return ran


@pytest.mark.parametrize(
    ("error", "code", "why"),
    [
        ("KeyboardInterrupt", 130, "it was stopped"),
        ("OSError('no broker')", 2, "ConfigurationError: your feed(3) raised OSError: no broker"),
    ],
)
def test_the_faults_of_a_run_that_was_left_are_recorded(
    error: str, code: int, why: str, run: Run, paths: UserRunDirectory
) -> None:
    assert run(f"if round == 3: raise {error}")[0] == code
    *cases, end = json.loads(paths.result.read_text())["cases"]
    assert {case["outcome"] for case in cases} == {"passed"}
    assert (end["outcome"], end["checks"]) == ("failed", [])
    assert why in end["reason"]
    assert why in paths.report.read_text()
    assert left_in(paths) == ["chaos.html", "chaos.json", "pipeline.log", "work"]


def test_a_run_that_was_left_before_its_first_fault_leaves_no_record_and_no_servers(
    run: Run, paths: UserRunDirectory
) -> None:
    code, shown = run("raise OSError('no broker')")
    assert code == 2 and "no broker" in shown
    assert left_in(paths) == ["work"]


def test_a_run_to_the_end_is_recorded_and_keeps_nothing_else(run: Run, paths: UserRunDirectory) -> None:
    code, shown = run("pass")
    assert code == 0, shown
    assert left_in(paths) == ["chaos.html", "chaos.json", "pipeline.log"]


def test_a_directory_of_somebody_else_is_not_tidied(paths: UserRunDirectory, run: Run) -> None:
    paths.steps.mkdir(parents=True)
    (paths.root / "thesis.tex").write_text("years of work")
    assert run("pass")[0] == 2
    assert paths.steps.exists()
