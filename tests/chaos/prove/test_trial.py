"""What counts as caught, and a handful of mutants that are really run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.chaos.prove.edited import edited
from tpc.chaos.prove.checks import CHECKS, Check
from tpc.chaos.prove.command import try_one
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.copies import MUTANTS
from tpc.chaos.prove.executed import Lines
from tpc.chaos.prove.mutant import Catch, Mutant, read_mutants
from tpc.chaos.prove.outcome import Found, found
from tpc.chaos.prove.trial import Fate, MutantTrial, try_mutant

NOTHING_ELSE = edited("LocalLog", "class LocalLog(Log):", "class LocalLog(Log):  # a remark")
NOTHING_ELSE_OF_THE_ENGINE = edited("Engine", "class Engine:", "class Engine:  # a remark")


class Known(Controls):
    """Controls whose outcome is given, and by which checks every mutant is executed; without names, by the expected."""

    def __init__(self, outcome: str = "held", failing: Iterable[int] = (), executing: Iterable[str] = ()) -> None:
        super().__init__()
        self.found = found(outcome, "live" if outcome == "violated" else "", "given")
        self.found["violations"] = [{"seed": seed, "invariant": "live", "what": "given"} for seed in failing]
        self.executing = list(executing)
        self.asked: list[str] = []

    def of(self, check: Check) -> Found:
        return {**self.found, "seconds": CHECKS.index(check), "executed": {}}

    def executes(self, check: Check, statements: Lines) -> bool | None:
        self.asked.append(check.name)
        assert statements
        return not self.executing or check.name in self.executing


LOG_KIT, BY_SEEDS = ["log kit"], ["simulator"]

CORE = (
    "01-lost-branch-dropped",
    "04-unknown-is-settled",
    "05-intent-after-commits",
    "05-unknown-put-undone",
    "08-refused-is-settled",
    "12-losers-never-swept",
    "14-manifest-before-rename",
)


def named(name: str) -> Mutant:
    return next(mutant for mutant in read_mutants(MUTANTS) if mutant.name == name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORE)
def test_a_mutant_is_caught_as_its_table_says(name: str) -> None:
    trial = try_mutant(named(name), Known())
    assert trial.fate is Fate.CAUGHT
    assert trial.catch == trial.expected


@pytest.mark.slow
def test_a_mutant_that_changes_no_behaviour_is_not_caught() -> None:
    trial = try_mutant(NOTHING_ELSE, Known(executing=LOG_KIT))
    assert trial.fate is Fate.SURVIVED
    assert trial.tried == [("log kit", "held")]
    assert trial.catch is None


@pytest.mark.slow
def test_a_mutant_that_cannot_be_imported_is_broken() -> None:
    mutant = edited("LocalLog", "class LocalLog(Log):", "class LocalLog(Log):\n    import not_there\n")
    trial = try_mutant(mutant, Known(executing=LOG_KIT))
    assert trial.fate is Fate.BROKEN
    assert "not_there" in trial.what


@pytest.mark.slow
def test_a_mutant_that_only_crashes_is_broken() -> None:
    mutant = edited("LocalLog.read", "return self._path(slot).read_bytes()", "return self.nowhere(slot).read_bytes()")
    trial = try_mutant(mutant, Known(executing=LOG_KIT))
    assert trial.fate is Fate.BROKEN
    assert "nowhere" in trial.what


@pytest.mark.slow
def test_a_catch_does_not_count_when_the_code_as_it_is_fails_too() -> None:
    mutant = edited("LocalLog._linked", "return target.read_bytes() == data", "return True")
    assert try_mutant(mutant, Known(executing=LOG_KIT)).fate is Fate.CAUGHT
    trial = try_mutant(mutant, Known("violated", executing=LOG_KIT))
    assert trial.fate is Fate.NOT_JUDGED
    assert trial.what == "the unchanged code does not pass this check either (live: given)"


@pytest.mark.slow
def test_a_mutant_is_caught_by_a_seed_that_the_code_as_it_is_holds() -> None:
    mutant = named("06-commits-ahead-accepted")
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
    monkeypatch: pytest.MonkeyPatch, failing: list[int], told: str
) -> None:
    left_out: list[str] = []

    def holds(copy: Path, check: Check, *options: str) -> Found:
        left_out.extend(options)
        return found("held")

    monkeypatch.setattr("tpc.chaos.prove.trial.run_in", holds)
    trial = try_mutant(NOTHING_ELSE_OF_THE_ENGINE, Known("violated", failing, BY_SEEDS))
    assert trial.fate is Fate.NOT_JUDGED
    assert told in trial.what
    assert left_out == ["--leave-out", *map(str, failing)]
    assert try_mutant(NOTHING_ELSE_OF_THE_ENGINE, Known(executing=BY_SEEDS)).fate is Fate.SURVIVED


def tried_by(monkeypatch: pytest.MonkeyPatch, mutant: Mutant, controls: Controls) -> MutantTrial:
    """A trial of checks that all hold, without running them."""
    monkeypatch.setattr("tpc.chaos.prove.trial.run_in", lambda *_: found("held"))
    return try_mutant(mutant, controls)


@pytest.mark.slow
def test_only_checks_that_execute_what_is_changed_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    controls = Known(executing=["log kit", "journal kit", "simulator"])
    trial = tried_by(monkeypatch, NOTHING_ELSE, controls)
    assert trial.fate is Fate.SURVIVED
    # Those of the shortest deadline first; of one deadline the fastest.
    assert [name for name, _ in trial.tried] == ["log kit", "journal kit", "simulator"]


@pytest.mark.slow
def test_the_expected_check_is_tried_first_and_no_other_is_asked_about_when_it_notices_the_mutant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tpc.chaos.prove.trial.run_in", lambda *_: found("violated", "test_x"))
    mutant = edited(
        "LocalLog._linked", "return target.read_bytes() == data", "return True", expected=Catch("log kit", "x")
    )
    trial = try_mutant(mutant, controls := Known())
    assert (trial.tried, controls.asked) == ([("log kit", "violated")], ["log kit"])


@pytest.mark.slow
def test_an_expected_check_that_does_not_execute_the_mutant_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = edited(
        "LocalLog._linked", "return target.read_bytes() == data", "return True", expected=Catch("files kit", "x")
    )
    trial = tried_by(monkeypatch, mutant, Known(executing=LOG_KIT))
    assert [name for name, _ in trial.tried] == ["log kit"]


@pytest.mark.slow
def test_a_mutant_that_no_check_executes_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = tried_by(monkeypatch, NOTHING_ELSE, Known(executing=["nothing"]))
    assert (trial.fate, trial.what, trial.tried) == (Fate.NOT_JUDGED, "no check executes what it changes", [])


@pytest.mark.slow
def test_the_command_says_who_caught_a_mutant(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    code = try_one(named("04-unknown-is-settled"), Known(), Console(width=200))
    assert code == 0
    assert "caught by explorer (atomic)" in capsys.readouterr().out
