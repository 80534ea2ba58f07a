"""`tpc example` before anything is started: what it refuses, with exit code 2."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from tpc.chaos.programs.command import run_examples


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
