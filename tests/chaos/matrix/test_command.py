"""What the command refuses before it starts anything, and what it says in the end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tpc.chaos.matrix import command
from tpc.chaos.matrix.command import run_matrix
from tpc.chaos.matrix.records import CaseRecord, Records
from tpc.chaos.reports.tally import FAILED, PASSED


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


def test_a_directory_that_cannot_be_made_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        code, said = run(place, "pairs")
        assert code == 2
        assert "cannot be made, or emptied of an earlier run: Not a directory" in said
        assert "choose a directory with --dir" in said


@pytest.mark.parametrize(("uncounted", "code"), [(PASSED, 0), (FAILED, 1)])
def test_the_last_line_is_of_cases_and_a_failure_that_does_not_count_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uncounted: str, code: int
) -> None:
    def runs(place: Path, *_: object) -> None:
        records = Records(place, {"seed": 1})
        for counts, outcome in ((True, PASSED), (False, uncounted)):
            records.add(CaseRecord("a case", "disk", "epoch.planned", "kill", None, 1, counts=counts, outcome=outcome))

    monkeypatch.setattr(command, "_run", runs)
    exit_code, said = run(tmp_path, "pairs")
    assert exit_code == code
    before, last = said.splitlines()[-2:]
    assert last == "1 cases, 1 passed, 0 failed, 0 skipped"
    assert before.startswith("1 more runs that do not count")
