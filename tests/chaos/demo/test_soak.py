"""A soak is red when it was not killed, or not for as long as was asked; and what is red leaves its evidence."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tpc.chaos.checkers.compare import Check
from tpc.chaos.demo import soak
from tpc.chaos.demo.soak import SoakDirectory, kill_checks, run_soak, soak_json
from tpc.chaos.kills.events import Killed
from tpc.chaos.kills.run_record import RunRecord
from tpc.chaos.servers.stack import Stack


def record(*kills_at_s: float, minutes: float = 10.0) -> RunRecord:
    """Of a soak whose kills came so many seconds after the beginning of the first life."""
    made = RunRecord({"seed": 1, "minutes": minutes, "rows": 2000})
    made.started(1)
    began = made.lives[0].started_at
    for number, after_s in enumerate(kills_at_s, 1):
        made.killed(Killed(number, "", "during the pass", number, 1, began + after_s, 6, "pass.write"))
    return made


def told(made: RunRecord, exit_code: int = 0) -> list[tuple[bool, str]]:
    return [(check.passed, check.detail) for check in kill_checks(made, exit_code)]


def test_kills_to_the_end_of_the_time_asked_are_enough() -> None:
    assert told(record(10.0, 300.0, 597.0)) == [(True, "3 kills"), (True, "9 min 57 s of 10 min")]


def test_without_a_kill_it_is_red() -> None:
    assert [passed for passed, _ in told(record())] == [False, False]


def test_kills_that_ended_early_are_red_with_how_long_they_went_on_and_what_to_do() -> None:
    (killed, _), (went_on, detail) = told(record(10.0, 480.0))
    assert (killed, went_on) == (True, False)
    assert detail.startswith("8 min of 10 min: ") and "more rows" in detail
    assert "given up" in told(record(10.0, 480.0), exit_code=1)[1][1]


def test_the_record_has_the_time_measured() -> None:
    assert soak_json(record(10.0, 480.0), [])["killed_for_s"] == pytest.approx(480.0)
    assert soak_json(record(), [])["killed_for_s"] == 0.0


@pytest.mark.parametrize("passed", [True, False])
def test_what_the_systems_held_goes_only_when_every_check_holds(
    passed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_record: RunRecord, paths: SoakDirectory, _stack: Stack) -> list[Check]:
        for place in (paths.servers, paths.files, paths.commits):
            place.mkdir(parents=True, exist_ok=True)
        return [Check("rows", passed, "")]

    monkeypatch.setattr(soak, "_run", run)
    shown = io.StringIO()
    code = run_soak(minutes=1, seed=1, directory=tmp_path / "s", console=Console(file=shown, width=300))
    places = [tmp_path / "s" / name for name in ("servers", "files", "commits")]
    assert code == (0 if passed else 1)
    assert [place.exists() for place in places] == [not passed] * 3
    assert all((str(place) in shown.getvalue()) is not passed for place in places)
