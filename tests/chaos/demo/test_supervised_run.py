"""A killed run comes to its end: with what could not be recorded, with lives that fell silent, or well."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpc.chaos.demo import supervised_run
from tpc.chaos.demo.directory import DemoDirectory
from tpc.chaos.demo.life_checks import RECOVERY_BOUND_S, life_checks
from tpc.chaos.demo.supervised_run import SPARE_RESTARTS, Kills, run_pipeline
from tpc.chaos.kills.events import Killed
from tpc.chaos.kills.plan import Step, StepKill
from tpc.chaos.kills.run_record import LifeSeen, RunRecord
from tpc.chaos.servers.stack import Stack

ROOT = Path(__file__).parents[2]
KILL = StepKill(Step.BEFORE_INTENT)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoDirectory:
    """A place for runs of the toy pipeline, of eight epochs."""
    toy = ["tests.chaos.kills.toy_pipeline", str(tmp_path / "done"), "8"]
    monkeypatch.setattr(supervised_run, "_program", lambda *_: toy)
    monkeypatch.setattr(supervised_run, "SILENT_S", 5.0)
    monkeypatch.setattr(Stack, "environment", lambda _self: {"PYTHONPATH": str(ROOT)})
    return DemoDirectory(tmp_path)


def run(record: RunRecord, paths: DemoDirectory, *plan: StepKill) -> int:
    return run_pipeline(record, paths, Stack(paths.servers), Kills(plan), per_epoch=(1, 1))


def failed(record: RunRecord, code: int, planned: int | None) -> dict[str, str]:
    return {check.name: check.detail for check in life_checks(record, code, planned) if not check.passed}


@pytest.mark.slow
def test_a_run_with_its_kills_ends_well(paths: DemoDirectory) -> None:
    record = RunRecord({})
    assert run(record, paths, KILL, KILL) == 0
    assert len(record.kills) == 2
    assert failed(record, 0, 2) == failed(record, 0, None) == {}


def test_what_goes_wrong_after_a_kill_is_the_run_s_error(paths: DemoDirectory) -> None:
    def full() -> None:
        raise OSError("the disk is full")

    record = RunRecord({})
    with pytest.raises(OSError, match="the disk is full"):
        run_pipeline(record, paths, Stack(paths.servers), Kills((KILL, KILL)), per_epoch=(1, 1), after_kill=full)
    assert len(record.lives) == 1


@pytest.mark.slow
def test_a_life_that_fell_silent_is_red_with_its_number_and_its_last_step(paths: DemoDirectory) -> None:
    (paths.root / "stuck-3").touch()
    record = RunRecord({})
    assert run(record, paths, KILL) == 0
    wrong = failed(record, 0, 1)
    assert wrong["no life fell silent"] == "life 2: no step in 5 s after epoch.completed"
    assert "nothing but the kills ended it" in wrong


@pytest.mark.slow
def test_a_pipeline_that_ends_by_itself_is_given_up_after_a_few_restarts(
    paths: DemoDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_run, "_program", lambda *_: ["tests.chaos.no_such_module"])
    record = RunRecord({})
    assert run(record, paths, *[KILL] * 100) == 1
    assert len(record.lives) == SPARE_RESTARTS + 1


def test_a_kill_before_any_complete_epoch_is_red() -> None:
    record = RunRecord({})
    record.started(1)
    record.killed(Killed(1, "", "during the pass", 0, 0, 2.0, 6, "pass.write"))
    record.ended(-9)
    record.started(2)
    record.ended(0)
    assert list(failed(record, 0, None)) == ["every kill came after a complete epoch"]


@pytest.mark.parametrize(
    ("first_s", "restart_s", "in_time"),
    [(10.0, 119.0, True), (10.0, 121.0, False), (60.0, 239.0, True), (60.0, 241.0, False), (None, 121.0, False)],
)
def test_a_restart_may_take_a_multiple_of_what_the_first_start_took(
    first_s: float | None, restart_s: float, in_time: bool
) -> None:
    record = RunRecord({})
    for number, took_s in enumerate((first_s, restart_s)):
        record.lives.append(LifeSeen(number, 1, 100.0, first_complete_at=took_s and 100.0 + took_s, exit_code=0))
    assert ("every restart came to a new epoch in time" not in failed(record, 0, 0)) == in_time
    assert RECOVERY_BOUND_S == 120.0
