"""`tpc example`: what it refuses before anything is started, and how it ends."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tpc.chaos.programs.catalogue import PROGRAMS
from tpc.chaos.programs.command import run_examples
from tpc.chaos.user.target import Row

SHORTEST = "resume_elsewhere"


def refused(names: list[str], directory: Path) -> str:
    """What stood on the terminal."""
    shown = io.StringIO()
    code = run_examples(names, seed=1, directory=directory, console=Console(file=shown, width=200))
    assert code == 2
    return shown.getvalue()


def test_an_unknown_program_is_refused_and_no_directory_is_made(tmp_path: Path) -> None:
    said = refused(["moving_avarage"], tmp_path / "run")
    assert "there is no program 'moving_avarage'" in said and "running_tally" in said
    assert not (tmp_path / "run").exists()


def test_a_directory_that_holds_something_else_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    assert "not of an earlier run: thesis.txt" in refused(["moving_average"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def run(directory: Path) -> tuple[int, str]:
    """The shortest program with its five kills: the exit code, and what stood on the terminal."""
    shown = io.StringIO()
    code = run_examples([SHORTEST], seed=1, directory=directory, console=Console(file=shown, width=200))
    return code, shown.getvalue()


@pytest.mark.stack  # of its own
def test_a_program_whose_checks_hold_ends_with_its_verdict_and_leaves_its_log(tmp_path: Path) -> None:
    code, said = run(tmp_path / "run")
    assert (code, "exactly once: 5 faults" in said) == (0, True), said
    assert (tmp_path / "run" / SHORTEST / "pipeline.log").is_file()
    assert not (tmp_path / "run" / SHORTEST / "work").exists()


@pytest.mark.stack
def test_one_row_that_is_not_expected_is_named_and_what_was_written_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[SHORTEST]

    def one_less() -> dict[str, list[Row]]:
        (name, rows), *others = program.expected().items()
        return {name: [*rows][1:], **dict(others)}

    monkeypatch.setitem(PROGRAMS, SHORTEST, replace(program, expected=one_less))
    code, said = run(tmp_path / "run")
    assert (code, "1 of 10 checks failed after 5 faults" in said, "0: 1 too many" in said) == (1, True, True), said
    assert (tmp_path / "run" / SHORTEST / "work").exists()
