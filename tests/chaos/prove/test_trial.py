"""What counts as caught, and a handful of mutants that are really run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.prove.patches import patch
from tpc.chaos.prove.command import try_patch
from tpc.chaos.prove.copies import MUTANTS
from tpc.chaos.prove.mutant import read_mutant
from tpc.chaos.prove.trial import Controls, Fate, try_mutant
from tpc.chaos.prove.worker import Found, found

LOCAL_LOG = "coordinator/log/local.py"
FIRST_LINE = '"""The log in a local directory'


class Known(Controls):
    """Controls whose outcome is given."""

    def __init__(self, outcome: str = "held") -> None:
        super().__init__()
        self.outcome = outcome

    def of(self, check: object) -> Found:
        return found(self.outcome, "", "given")


CORE = (
    "01-lost-branch-dropped",
    "04-unknown-is-settled",
    "05-intent-after-commits",
    "05-unknown-put-undone",
    "08-refused-is-settled",
    "11-higher-slot-unnoticed",
    "12-losers-never-swept",
    "14-manifest-before-rename",
)


@pytest.mark.parametrize("name", CORE)
def test_a_mutant_is_caught_as_its_header_says(name: str) -> None:
    trial = try_mutant(read_mutant(MUTANTS / f"{name}.patch"), Known())
    assert trial.fate is Fate.CAUGHT
    assert trial.catch == trial.expected


def test_a_patch_that_does_nothing_is_not_caught(tmp_path: Path) -> None:
    mutant = patch(tmp_path, LOCAL_LOG, FIRST_LINE, f"# a remark\n{FIRST_LINE}")
    trial = try_mutant(mutant, Known())
    assert trial.fate is Fate.SURVIVED
    assert trial.tried == [("log kit", "held")]
    assert trial.catch is None


def test_a_patch_that_cannot_be_imported_is_broken(tmp_path: Path) -> None:
    mutant = patch(tmp_path, LOCAL_LOG, "import re\n", "import not_there\n")
    trial = try_mutant(mutant, Known())
    assert trial.fate is Fate.BROKEN
    assert "not_there" in trial.what


def test_a_patch_that_only_crashes_is_broken(tmp_path: Path) -> None:
    mutant = patch(tmp_path, LOCAL_LOG, "        target = self._path(slot)\n", "        target = self.nowhere(slot)\n")
    trial = try_mutant(mutant, Known())
    assert trial.fate is Fate.BROKEN
    assert "nowhere" in trial.what


def test_a_catch_does_not_count_when_the_code_as_it_is_fails_too(tmp_path: Path) -> None:
    mutant = patch(tmp_path, LOCAL_LOG, "return target.read_bytes() == data", "return True")
    assert try_mutant(mutant, Known("violated")).fate is Fate.BROKEN
    assert try_mutant(mutant, Known()).fate is Fate.CAUGHT


def test_the_command_says_who_caught_a_patch(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    code = try_patch(MUTANTS / "04-unknown-is-settled.patch", Known(), Console(width=200))
    assert code == 0
    assert "caught by explorer (atomic)" in capsys.readouterr().out
