"""What the command refuses before it starts anything."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from tpc.chaos.matrix.command import run_matrix


def run(directory: Path, suite: str) -> tuple[int, str]:
    text = io.StringIO()
    code = run_matrix(directory, 1, suites=[suite], console=Console(file=text, width=200))
    return code, text.getvalue()


def test_a_directory_that_holds_something_of_somebody_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "cases.json").touch()
    (tmp_path / "somebody's").touch()
    code, said = run(tmp_path, "pairs")
    assert code == 2
    assert "not of an earlier run: somebody's" in said
    assert {path.name for path in tmp_path.iterdir()} == {"cases.json", "somebody's"}


def test_a_suite_that_does_not_exist_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    code, said = run(tmp_path / "new", "no such suite")
    assert code == 2
    assert "there is no suite" in said
    assert not (tmp_path / "new").exists()
