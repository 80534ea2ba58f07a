"""What the command line of the proof takes, tells and returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tpc.chaos.prove.__main__ import main
from tpc.chaos.prove.records import read_record


def simulator(place: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """The exit code, and the blocks of seeds in the record."""
    record = place / "prove.json"
    code = main(["--only", "simulator", "--json", str(record), *arguments])
    return code, [entry for entry in read_record(record) if entry["kind"] == "seeds"]


@pytest.mark.slow
def test_the_first_seed_can_be_chosen_and_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, blocks = simulator(tmp_path, "--first", "50000", "--seeds", "251")
    assert code == 0
    assert [(block["first"], block["count"]) for block in blocks] == [(50_000, 250), (50_250, 1)]
    assert "251 seeds (50000 to 50250)" in capsys.readouterr().out


def test_a_negative_first_seed_is_refused_since_its_history_is_that_of_another(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        simulator(tmp_path, "--first", "-1", "--seeds", "1")


def test_a_seed_that_the_code_as_it_is_violates_ends_the_proof_red(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    violation = {"seed": 7, "invariant": "live", "what": "x"}
    block = {"first": 0, "count": 10, "transitions": {}, "violations": [violation]}
    monkeypatch.setattr("tpc.chaos.prove.parts.in_a_process", lambda *_: block)
    assert simulator(tmp_path, "--seeds", "10")[0] == 1
    assert "seed 7: live: x" in capsys.readouterr().out


def test_a_mutant_that_is_in_no_table_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--mutant", "99-nothing"])
    assert "has a mutant 99-nothing" in capsys.readouterr().err
