"""A run that was ended goes on from what it has kept, and not from what was found of another state of the code."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.prove.edited import edited
from tpc.chaos.prove.machine.kept import Kept, missed_in
from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.machine.scores import Round, Tried
from tpc.chaos.prove.mutant import Catch
from tpc.chaos.prove.trial import Fate, MutantTrial

MADE = [
    Made("log", "a.py", line, "x", edited("LocalLog._linked", "return target.read_bytes() == data", f"return {line}"))
    for line in range(4)
]
CAUGHT = MutantTrial("m", None, "", Fate.CAUGHT, Catch("log kit", "test_x"), tried=[("log kit", "violated")])
SURVIVED = MutantTrial("m", None, "", Fate.SURVIVED, tried=[("log kit", "held")], seconds=2.5)
RESULTS = [
    Tried(MADE[0], CAUGHT, last=Round.QUICK),
    Tried(MADE[1], SURVIVED),
    Tried(MADE[2], None, "It changes nothing."),
]


def kept_in(path: Path, results: list[Tried], of: str = "now") -> Kept:
    kept = Kept(path / "record.jsonl", of)
    for tried in results:
        kept.add(tried)
    return kept


def test_what_is_kept_is_read_as_it_was(tmp_path: Path) -> None:
    assert kept_in(tmp_path, RESULTS).read(MADE) == RESULTS


def test_the_last_result_of_a_mutant_counts(tmp_path: Path) -> None:
    kept = kept_in(tmp_path, [Tried(MADE[1], SURVIVED, last=Round.QUICK), RESULTS[1]])
    assert kept.read(MADE) == [RESULTS[1]]


def test_a_line_that_was_cut_off_is_passed_over_and_takes_no_other_along(tmp_path: Path) -> None:
    kept = kept_in(tmp_path, RESULTS)
    whole = kept.path.read_text(encoding="utf-8")
    kept.path.write_text(whole[:-20], encoding="utf-8")
    assert kept.read(MADE) == RESULTS[:2]
    kept.add(RESULTS[2])
    assert kept.read(MADE) == RESULTS


def test_results_of_another_state_of_the_code_are_not_gone_on_with(tmp_path: Path) -> None:
    kept_in(tmp_path, RESULTS, of="before")
    assert kept_in(tmp_path, RESULTS[:1]).read(MADE) == RESULTS[:1]


def test_those_that_were_missed_before_a_change_can_be_asked_for(tmp_path: Path) -> None:
    path = kept_in(tmp_path, RESULTS, of="before").path
    assert missed_in(path, MADE) == [MADE[1]]
