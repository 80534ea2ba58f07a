"""A control is run once, with all seeds, and what it has found is kept for as long as nothing has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tpc.chaos.prove import controls as module
from tpc.chaos.prove.checks import CHECKS, Check, check_named
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.copies import CHECKOUT, Probes, instrument, probed
from tpc.chaos.prove.outcome import Found, found

LOG_KIT = check_named("log kit")


class Runs:
    """Notes which checks are run, in the place of running them; each executes one statement."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.fingerprint = "as it was"
        self.outcomes = ["held"]
        self.run: list[tuple[str, ...]] = []

    @contextmanager
    def probed(self) -> Iterator[tuple[Path, Probes]]:
        (self.place / "a.py").write_text("def put():\n    return 1\n")
        yield self.place, instrument(self.place, ["a.py"])

    def run_in(self, copy: Path, check: Check, *options: str) -> Found:
        self.run.append((check.name, *options))
        (copy / "_tpc_executed.bin").write_bytes(b"\1")
        return found(self.outcomes.pop() if len(self.outcomes) > 1 else self.outcomes[0])


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    those = Runs(tmp_path)
    monkeypatch.setattr(module, "probed", those.probed)
    monkeypatch.setattr(module, "run_in", those.run_in)
    monkeypatch.setattr(module, "fingerprint", lambda: those.fingerprint)
    return those


def test_every_seed_of_the_code_as_it_is_is_run(runs: Runs, tmp_path: Path) -> None:
    Controls(tmp_path).of(check_named("simulator"))
    assert runs.run == [("simulator", "--every-seed")]


def test_a_control_is_run_once_and_kept_until_something_changes(runs: Runs, tmp_path: Path) -> None:
    controls = Controls(tmp_path / "kept")
    first = controls.of(LOG_KIT)
    assert controls.of(LOG_KIT) == Controls(tmp_path / "kept").of(LOG_KIT) == first
    assert (first["outcome"], first["executed"], len(runs.run)) == ("held", {"a.py": [2]}, 1)
    runs.fingerprint = "another"
    Controls(tmp_path / "kept").of(LOG_KIT)
    assert len(runs.run) == 2


@pytest.mark.parametrize("outcome", ["violated", "skipped", "broken"])
def test_what_does_not_hold_is_not_kept(runs: Runs, tmp_path: Path, outcome: str) -> None:
    runs.outcomes = [outcome]
    assert Controls(tmp_path).of(LOG_KIT)["outcome"] == outcome
    runs.outcomes = ["held"]
    assert Controls(tmp_path).of(LOG_KIT)["outcome"] == "held"


def test_one_that_crashes_is_run_again_and_one_that_fails_is_not(runs: Runs, tmp_path: Path) -> None:
    runs.outcomes = ["held", "broken"]
    assert Controls(tmp_path).of(LOG_KIT)["outcome"] == "held"
    runs.outcomes = ["held", "violated"]
    assert Controls(tmp_path / "other").of(LOG_KIT)["outcome"] == "violated"


def test_a_part_of_a_kept_control_is_none(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "log-kit.json").write_text('{"of": "as it')
    assert Controls(tmp_path).of(LOG_KIT)["outcome"] == "held"


@pytest.mark.parametrize(
    ("outcome", "statements", "executes"),
    [
        ("held", {"a.py": {2}}, True),
        ("violated", {"a.py": {2}}, True),
        ("held", {"a.py": {3}}, False),
        ("skipped", {"a.py": {2}}, None),
        ("broken", {"a.py": {2}}, None),
    ],
)
def test_of_a_control_that_did_not_come_to_its_end_nothing_is_known(
    runs: Runs, tmp_path: Path, outcome: str, statements: dict[str, set[int]], executes: bool | None
) -> None:
    runs.outcomes = [outcome]
    assert Controls(tmp_path).executes(LOG_KIT, statements) is executes


def test_the_record_has_how_many_statements_were_executed(runs: Runs, tmp_path: Path) -> None:
    controls = Controls(tmp_path)
    assert len(list(controls.fastest_first())) == len(CHECKS)
    assert {entry["check"] for entry in controls.to_json()} == {check.name for check in CHECKS}
    assert {entry["executed"] for entry in controls.to_json()} == {1}


def test_controls_of_longer_deadlines_are_not_run_before_one_of_them_is_asked_for(runs: Runs, tmp_path: Path) -> None:
    explorer, log, journal = (check_named(name) for name in ("explorer", "log kit", "journal kit"))
    (tmp_path / "journal-kit.json").write_text(
        json.dumps({"of": runs.fingerprint, **found("held"), "executed": {}, "seconds": -1.0})
    )
    asked = Controls(tmp_path).fastest_first((explorer, log, journal))
    assert [next(asked), runs.run] == [journal, [("log kit", "--every-seed")]]
    assert [next(asked), runs.run] == [log, [("log kit", "--every-seed")]]
    assert [*asked] == [explorer]
    assert len(runs.run) == 2


@pytest.mark.slow
def test_the_local_log_is_executed_by_its_kit_and_the_sinks_are_not(tmp_path: Path) -> None:
    control = Controls(tmp_path).of(LOG_KIT)
    assert control["outcome"] == "held"
    lines = (CHECKOUT / "coordinator/kernel/log/local.py").read_text().splitlines()
    assert "return target.read_bytes() == data" in {
        lines[line - 1].strip() for line in control["executed"]["coordinator/kernel/log/local.py"]
    }
    assert not any(file.startswith("sinks/mongo") for file in control["executed"])
    with probed() as (copy, probes):
        assert (copy / "coordinator/kernel/log/local.py").read_text().splitlines() == lines
        assert probes.executed() == {}
