"""What the command refuses before it starts anything, and what it says in the end."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from tpc.chaos.matrix import command
from tpc.chaos.matrix.case import Case
from tpc.chaos.matrix.command import run_matrix
from tpc.chaos.matrix.records import CaseRecord, Records
from tpc.chaos.reports.tally import FAILED, PASSED


def run(directory: Path, suite: str, *, resume: bool = False) -> tuple[int, str]:
    text = io.StringIO()
    code = run_matrix(directory, 1, suites=[suite], console=Console(file=text, width=200), resume=resume)
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
    def runs(records: Records, *_: object) -> None:
        for counts, outcome in ((True, PASSED), (False, uncounted)):
            records.add(CaseRecord("a case", "disk", "epoch.planned", "kill", None, 1, counts=counts, outcome=outcome))

    monkeypatch.setattr(command, "_run", runs)
    exit_code, said = run(tmp_path, "pairs")
    assert exit_code == code
    before, last = said.splitlines()[-2:]
    assert last == "1 cases, 1 passed, 0 failed, 0 skipped"
    assert before.startswith("1 more runs that do not count")


def cases_of_which_one_fails(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of what each run tries from now on; its first case fails, all others pass."""
    tried: list[list[str]] = []

    def runs(records: Records, cases: Sequence[Case], *_: object) -> None:
        tried.append([case.name for case in cases])
        for number, case in enumerate(cases):
            outcome = PASSED if number or len(tried) > 1 else FAILED
            records.add(CaseRecord(case.name, case.suite, "epoch.planned", "kill", None, 1, outcome=outcome))

    monkeypatch.setattr(command, "_run", runs)
    return tried


def test_a_run_that_is_gone_on_with_tries_what_has_not_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = cases_of_which_one_fails(monkeypatch)
    assert run(tmp_path, "disk")[0] == 1
    code, said = run(tmp_path, "disk", resume=True)
    assert code == 0
    assert tried[1] == tried[0][:1]
    assert said.splitlines()[-1].endswith(" passed, 0 failed, 0 skipped")
    recorded = json.loads((tmp_path / "cases.json").read_text())["cases"]
    assert sorted(case["name"] for case in recorded) == sorted(tried[0])


@pytest.mark.parametrize("other", ["code", "suites"])
def test_no_run_of_another_code_or_of_other_cases_is_gone_on_with(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases_of_which_one_fails(monkeypatch)
    run(tmp_path, "disk")
    before = (tmp_path / "cases.json").read_bytes()
    if other == "code":
        monkeypatch.setattr(command, "_code", lambda: "another")
    code, said = run(tmp_path, "disk" if other == "code" else "power", resume=True)
    assert code == 2
    assert f"was made with another {other}" in said
    assert (tmp_path / "cases.json").read_bytes() == before


def test_where_nothing_was_run_nothing_is_gone_on_with(tmp_path: Path) -> None:
    code, said = run(tmp_path, "disk", resume=True)
    assert code == 2
    assert "no run that can be resumed" in said
