"""The closing line and the verdict follow from the record, and from nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tpc.chaos.explorer.protocol.model import Scope
from tpc.chaos.explorer.search import Exploration
from tpc.chaos.explorer.whole import Whole
from tpc.chaos.prove.records import (
    MOST_MISSED,
    closing_line,
    failures,
    missed_of_the_machine,
    read_record,
    transition_entries,
    write_record,
)
from tpc.machine import TRANSITIONS

SEARCH: dict[str, Any] = {
    "kind": "search",
    "states": 1_200_000,
    "violated": None,
    "what": "",
    "trace": [],
    "missed": [],
}
SEEDS: dict[str, Any] = {"kind": "seeds", "first": 0, "count": 250, "violations": []}
CAUGHT: dict[str, Any] = {"kind": "mutant", "mutant": "01-x", "fate": "caught", "what": ""}
CONTROL: dict[str, Any] = {"kind": "control", "check": "explorer", "outcome": "held", "invariant": "", "what": ""}
MADE: dict[str, Any] = {
    "kind": "machine",
    "file": "a.py",
    "line": 1,
    "operator": "x",
    "told": "a.py:1 in f: x\n- a\n+ b",
    "reason": "",
    "trial": {"fate": "caught", "what": ""},
}
WHOLE = [SEARCH, {**SEARCH, "states": 34}, SEEDS, {**SEEDS, "first": 250, "count": 10}, CONTROL, CAUGHT, CAUGHT]


def test_the_line_counts_states_seeds_and_mutants() -> None:
    assert closing_line(WHOLE) == "explored 1,200,034 states, 260 seeds (0 to 259), 2 of 2 mutants caught, 0 not judged"


def test_the_line_names_the_seeds_as_the_command_line_takes_them() -> None:
    blocks = [{**SEEDS, "first": first} for first in (50_250, 50_000)]
    assert "500 seeds (50000 to 50499)" in closing_line(blocks)


def test_nothing_proves_nothing() -> None:
    assert closing_line([]) == "explored 0 states, 0 seeds, 0 of 0 mutants caught, 0 not judged"


@pytest.mark.parametrize("fate", ["survived", "not judged", "broken", "skipped"])
def test_only_a_caught_mutant_counts_as_caught(fate: str) -> None:
    entries = [*WHOLE, {**CAUGHT, "mutant": "02-y", "fate": fate, "what": "why"}]
    assert closing_line(entries).endswith(f"2 of 3 mutants caught, {int(fate == 'not judged')} not judged")
    assert failures(entries) == [f"mutant 02-y: {fate}: why"]


def made(fate: str, line: int = 1) -> dict[str, Any]:
    return {**MADE, "line": line, "trial": {"fate": fate, "what": "why"}}


@pytest.mark.parametrize("fate", ["caught", "broken"])
def test_a_crash_notices_a_mutant_of_the_machine_and_it_is_counted_apart_from_the_tables(fate: str) -> None:
    entries = [*WHOLE, made(fate)]
    assert closing_line(entries).endswith("2 of 2 mutants caught, 0 not judged, 1 of 1 of a machine noticed")
    assert (failures(entries), missed_of_the_machine(entries)) == ([], [])


@pytest.mark.parametrize("fate", ["survived", "not judged", "skipped"])
def test_a_mutant_of_the_machine_that_nothing_notices_is_told_and_a_few_of_them_are_no_failure(fate: str) -> None:
    entries = [*WHOLE, made("caught"), made(fate, 7)]
    assert closing_line(entries).endswith("caught, 0 not judged, 1 of 2 of a machine noticed (not a.py:7 (x))")
    assert missed_of_the_machine(entries) == [f"nothing notices ({fate}): a.py:1 in f: x\n- a\n+ b"]
    assert failures(entries) == []


def test_more_mutants_of_the_machine_that_nothing_notices_than_the_score_allows_end_the_proof_red() -> None:
    missed = [made("survived", line) for line in range(MOST_MISSED + 1)]
    assert failures([*WHOLE, *missed[1:]]) == []
    assert failures([*WHOLE, *missed]) == [
        "machine: nothing notices 4 mutants of the sample, more than the score allows by chance"
    ]


def test_a_mutant_of_the_machine_that_changes_nothing_does_not_count() -> None:
    entries = [*WHOLE, {**MADE, "trial": None, "reason": "It changes nothing."}]
    assert closing_line(entries) == closing_line(WHOLE)
    assert failures(entries) == []


def test_a_whole_proof_has_no_failures() -> None:
    assert failures(WHOLE) == []


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({**SEARCH, "violated": "durable", "what": "x", "trace": ["a"]}, "explorer: durable: x\n    a"),
        ({**SEARCH, "missed": ["READY/Swept"]}, "explorer: never taken: READY/Swept"),
        (
            {**SEEDS, "violations": [{"seed": 7, "invariant": "live", "what": "x"}] * 3},
            "simulator: seed 7: live: x (and 2 more in this block)",
        ),
        (
            {**CONTROL, "outcome": "violated", "invariant": "live", "what": "x"},
            "explorer: the code as it is does not pass: live x",
        ),
        (
            {**CONTROL, "outcome": "violated", "invariant": "live", "what": "seed 7: x", "violations": [{}] * 3},
            "explorer: the code as it is does not pass: live seed 7: x (and 2 more seeds)",
        ),
    ],
)
def test_what_did_not_hold_is_told(entry: dict[str, Any], told: str) -> None:
    assert failures([*WHOLE, entry]) == [told]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "prove.json"
    write_record(path, WHOLE)
    assert read_record(path) == WHOLE


def test_every_row_of_the_table_is_told_with_who_took_it() -> None:
    whole = Whole([(Scope(1, 0), Exploration(rows_taken=["READY/SweepDue"]), 0.0)])
    blocks = [{"transitions": {"ready/SweepDue": 3}}, {"transitions": {"ready/SweepDue": 4}}]
    entries = transition_entries(whole, blocks)
    assert len(entries) == len(TRANSITIONS)
    taken = [entry for entry in entries if entry["explored"] or entry["simulated"]]
    assert taken == [{"kind": "transition", "phase": "ready", "event": "SweepDue", "explored": True, "simulated": 7}]
