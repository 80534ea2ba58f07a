"""The commands of demo and faults: what they hand on to what they run, and the exit code that comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tpc.__main__ import app
from tpc.chaos.demo import demo
from tpc.chaos.demo.directory import VERDICT_FILE
from tpc.chaos.matrix import command as matrix_command

RUNNER = CliRunner()


def called_with(monkeypatch: pytest.MonkeyPatch, module: object, name: str, code: int) -> dict[str, Any]:
    """What the next call of `module.name` is given by name; it returns `code`."""
    given: dict[str, Any] = {}

    def call(*places: Path, **named: Any) -> int:
        given.update({"places": places, **named})
        return code

    monkeypatch.setattr(module, name, call)
    return given


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "kills"),
    [([], None), (["--kills", "3"], 3), (["--no-kill"], 0)],
    ids=["as many as the demo thinks right", "so many", "none"],
)
def test_the_demo_is_run_with_the_kills_that_are_wanted(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], kills: int | None
) -> None:
    given = called_with(monkeypatch, demo, "run_demo", 1)
    assert RUNNER.invoke(app, ["demo", "--seed", "7", *arguments]).exit_code == 1
    assert (given["seed"], given.get("kills")) == (7, kills)


def test_a_verdict_without_a_run_is_code_2_and_no_json(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["verify", str(tmp_path), "--json"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "no demo has been run" in result.stderr


@pytest.mark.parametrize("code", [0, 1])
def test_a_verdict_as_json_is_the_file_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    (tmp_path / VERDICT_FILE).write_text('{"passed": false}')
    called_with(monkeypatch, demo, "run_verify", code)
    result = RUNNER.invoke(app, ["verify", str(tmp_path), "--json"])
    assert (result.exit_code, json.loads(result.stdout)) == (code, {"passed": False})


def test_the_matrix_leaves_the_pairs_out_unless_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    given = called_with(monkeypatch, matrix_command, "run_matrix", 0)
    assert RUNNER.invoke(app, ["chaos", "matrix"]).exit_code == 0
    assert "pairs" not in given["suites"]
    RUNNER.invoke(app, ["chaos", "matrix", "--suite", "pairs"])
    assert given["suites"] == ["pairs"]


@pytest.mark.slow
def test_a_simulation_is_repeated_exactly_by_its_seed() -> None:
    first, second = (RUNNER.invoke(app, ["chaos", "simulate", "--seed", "3", "--trace"]) for _ in range(2))
    assert first.exit_code == 0
    assert first.output == second.output
    assert "seed 3: everything held" in first.output
