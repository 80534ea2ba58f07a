"""What counts as caught, and a handful of mutants that are really run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.chaos.prove.patches import patch
from tpc.chaos.prove.checks import Check, check_named
from tpc.chaos.prove.command import try_patch
from tpc.chaos.prove.copies import MUTANTS
from tpc.chaos.prove.mutant import read_mutant
from tpc.chaos.prove.outcome import Found, found
from tpc.chaos.prove.trial import Controls, Fate, MutantTrial, try_mutant

LOCAL_LOG = "coordinator/log/local.py"
ENGINE = "coordinator/engine/loop.py"
ENGINE_LINE = "class Engine:"
FIRST_LINE = '"""The log in a local directory'


class Known(Controls):
    """Controls whose outcome is given."""

    def __init__(self, outcome: str = "held", failing: Iterable[int] = ()) -> None:
        super().__init__()
        self.found = found(outcome, "live" if outcome == "violated" else "", "given")
        self.found["violations"] = [{"seed": seed, "invariant": "live", "what": "given"} for seed in failing]

    def of(self, check: object) -> Found:
        return self.found


CORE = (
    "01-lost-branch-dropped",
    "04-unknown-is-settled",
    "05-intent-after-commits",
    "05-unknown-put-undone",
    "08-refused-is-settled",
    "12-losers-never-swept",
    "14-manifest-before-rename",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORE)
def test_a_mutant_is_caught_as_its_header_says(name: str) -> None:
    trial = try_mutant(read_mutant(MUTANTS / f"{name}.patch"), Known())
    assert trial.fate is Fate.CAUGHT
    assert trial.catch == trial.expected


@pytest.mark.slow
def test_a_patch_that_does_nothing_is_not_caught(tmp_path: Path) -> None:
    mutant = patch(tmp_path, LOCAL_LOG, FIRST_LINE, f"# a remark\n{FIRST_LINE}")
    trial = try_mutant(mutant, Known())
    assert trial.fate is Fate.SURVIVED
    assert trial.tried == [("log kit", "held")]
    assert trial.catch is None


@pytest.mark.slow
def test_a_patch_that_cannot_be_imported_is_broken(tmp_path: Path) -> None:
    mutant = patch(tmp_path, LOCAL_LOG, "import re\n", "import not_there\n")
    trial = try_mutant(mutant, Known())
    assert trial.fate is Fate.BROKEN
    assert "not_there" in trial.what


@pytest.mark.slow
def test_a_patch_that_only_crashes_is_broken(tmp_path: Path) -> None:
    mutant = patch(tmp_path, LOCAL_LOG, "temporary, self._path(slot)", "temporary, self.nowhere(slot)")
    trial = try_mutant(mutant, Known())
    assert trial.fate is Fate.BROKEN
    assert "nowhere" in trial.what


@pytest.mark.slow
def test_a_catch_does_not_count_when_the_code_as_it_is_fails_too(tmp_path: Path) -> None:
    mutant = patch(tmp_path, LOCAL_LOG, "return target.read_bytes() == data", "return True")
    assert try_mutant(mutant, Known()).fate is Fate.CAUGHT
    trial = try_mutant(mutant, Known("violated"))
    assert trial.fate is Fate.NOT_JUDGED
    assert trial.what == "the unchanged code does not pass this check either (live: given)"


@pytest.mark.slow
def test_a_mutant_is_caught_by_a_seed_that_the_code_as_it_is_holds() -> None:
    mutant = read_mutant(MUTANTS / "06-commits-ahead-accepted.patch")
    first = seed_of(try_mutant(mutant, Known()))
    trial = try_mutant(mutant, Known("violated", failing=[first]))
    assert trial.fate is Fate.CAUGHT
    assert seed_of(trial) > first


def seed_of(trial: MutantTrial) -> int:
    return int(trial.what.removeprefix("seed ").partition(":")[0])


@pytest.mark.parametrize(
    ("failing", "told"),
    [
        ([2603], "violates seed 2603 (live), and"),
        pytest.param(
            [1, 2, 3, 4, 5],
            "violates seed 1 (live), seed 2 (live), seed 3 (live) and 2 more, and",
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.slow
def test_a_mutant_that_no_other_seed_notices_is_not_judged_and_the_seeds_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failing: list[int], told: str
) -> None:
    left_out: list[str] = []

    def holds(copy: Path, check: Check, *options: str) -> Found:
        left_out.extend(options)
        return found("held")

    monkeypatch.setattr("tpc.chaos.prove.trial.run_in", holds)
    mutant = patch(tmp_path, ENGINE, ENGINE_LINE, f"# a remark\n{ENGINE_LINE}")
    trial = try_mutant(mutant, Known("violated", failing))
    assert trial.fate is Fate.NOT_JUDGED
    assert told in trial.what
    assert left_out == ["--leave-out", *map(str, failing)]
    assert try_mutant(mutant, Known()).fate is Fate.SURVIVED


@pytest.mark.slow
def test_every_seed_of_the_code_as_it_is_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    def holds(copy: Path, check: Check, *options: str) -> Found:
        given.extend(options)
        return found("held")

    monkeypatch.setattr("tpc.chaos.prove.trial.run_in", holds)
    Controls().of(check_named("simulator"))
    assert given == ["--every-seed"]


@pytest.mark.slow
def test_the_command_says_who_caught_a_patch(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    code = try_patch(MUTANTS / "04-unknown-is-settled.patch", Known(), Console(width=200))
    assert code == 0
    assert "caught by explorer (atomic)" in capsys.readouterr().out
