"""The closing line and the verdict follow from the record, and from nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tpc.chaos.explorer.search import Exploration
from tpc.chaos.explorer.whole import Scope, Whole
from tpc.chaos.prove.records import closing_line, failures, read_record, transition_entries, write_record
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
