"""The parts of a proof share the cores: the next one is begun while the one before it is still at work."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tpc.chaos.explorer.search import Exploration
from tpc.chaos.explorer.whole import GIVE_UPS, Whole, explore
from tpc.chaos.prove.checks import Check
from tpc.chaos.prove.command import PARTS, prove
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.machine.made import Made
from tpc.chaos.prove.machine.scores import Tried
from tpc.chaos.prove.mutant import Catch, Edit, Mutant
from tpc.chaos.prove.outcome import Found, found
from tpc.chaos.prove.records import read_record
from tpc.chaos.prove.trial import Fate, MutantTrial

DEADLINE_S = 30.0
SEEDS = 251


LOG = Edit("LocalLog._linked", ("return target.read_bytes() == data",), ("return True",))
KAFKA = Edit("verdict_of_reply", ("return None",), ("return Outcome(Verdict.ALREADY)",))


def mutant(name: str, edit: Edit, check: str) -> Mutant:
    return Mutant(name, (edit,), 1, "x.", Catch(check, "x"))


MUTANTS = [
    mutant("01-short", LOG, "log kit"),
    mutant("02-long", KAFKA, "kafka kit"),
    mutant("03-short", LOG, "log kit"),
]


@dataclass
class StandIns:
    """Take the places of the searches, the simulations and the trials, and note what is begun."""

    begun: list[str] = field(default_factory=list)
    is_begun: dict[str, threading.Event] = field(default_factory=lambda: {m.name: threading.Event() for m in MUTANTS})
    searched: Callable[[], None] = lambda: None
    """What a search does."""
    fate_of_made: Fate = Fate.CAUGHT

    def in_a_process(self, function: object, *arguments: Any) -> object:
        if function is explore:
            self.begun.append("search")
            self.searched()
            return Whole([(GIVE_UPS, Exploration(states=7), 0.0)])
        first, count = arguments
        self.begun.append(f"seeds from {first}")
        return {"first": first, "count": count, "transitions": {}, "violations": []}

    def try_mutant(self, one: Mutant, controls: Controls) -> MutantTrial:
        self.begun.append(one.name)
        self.is_begun[one.name].set()
        return MutantTrial(one.name, one.rule, one.defect, Fate.CAUGHT, one.expected, one.expected)

    def sample(self, seed: int) -> list[Made]:
        self.begun.append(f"drawn by {seed}")
        return [Made("log", "a.py", 1, "x", mutant("made", LOG, "log kit"))]

    def tried(self, made: Made) -> Tried:
        self.begun.append(made.mutant.name)
        return Tried(made, MutantTrial("made", None, "", self.fate_of_made))

    def again_if_hung(self, tried: Tried) -> Tried:
        self.begun.append("alone")
        return tried


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> StandIns:
    those = StandIns()

    def control(controls: Controls, check: Check) -> Found:
        those.begun.append(f"control of the {check.name}")
        return controls._found.setdefault(check.name, {**found("held"), "executed": {}, "seconds": 0.0})

    monkeypatch.setattr("tpc.chaos.prove.parts.in_a_process", those.in_a_process)
    monkeypatch.setattr("tpc.chaos.prove.parts.try_mutant", those.try_mutant)
    monkeypatch.setattr("tpc.chaos.prove.command.sample", those.sample)
    monkeypatch.setattr("tpc.chaos.prove.command.Sample", lambda _: those)
    monkeypatch.setattr("tpc.chaos.prove.parts.WHOLE", (GIVE_UPS,))
    monkeypatch.setattr("tpc.chaos.prove.command.WHOLE", (GIVE_UPS,))
    monkeypatch.setattr("tpc.chaos.prove.command.read_mutants", lambda _: MUTANTS)
    monkeypatch.setattr(Controls, "of", control)
    return those


def test_seeds_and_mutants_are_tried_while_a_search_is_not_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_ins: StandIns, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    waited: list[bool] = []
    stand_ins.searched = lambda: waited.append(stand_ins.is_begun["03-short"].wait(DEADLINE_S))
    record = tmp_path / "prove.json"
    assert prove(PARTS, 0, SEEDS, record, Console(width=200)) == 0
    assert waited == [True]
    kinds = list(dict.fromkeys(entry["kind"] for entry in read_record(record)))
    assert kinds == ["search", "seeds", "transition", "control", "mutant", "machine"]
    assert [entry["mutant"] for entry in read_record(record) if entry["kind"] == "mutant"] == [
        one.name for one in MUTANTS
    ]
    told = capsys.readouterr().out.splitlines()
    assert (
        told[-1]
        == "explored 7 states, 251 seeds (0 to 250), 3 of 3 mutants caught, 0 not judged, 1 of 1 of a machine noticed"
    )
    for line in ("searches", "1/1"), ("seeds", "251/251"), ("mutants", "3/3"), ("machine", "1/1"):
        assert any(all(word in row for word in line) for row in told)


def test_what_takes_longest_is_begun_first_and_a_control_before_the_mutants_that_ask_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_ins: StandIns
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    prove(PARTS, 50_000, SEEDS, tmp_path / "prove.json", Console())
    waiting = ["control of the kafka kit", "02-long"]
    computing = ["search", "seeds from 50000", "seeds from 50250", "control of the log kit", "01-short", "03-short"]
    assert [each for each in stand_ins.begun if each in waiting] == waiting
    drawn = "drawn by 50000"
    assert [each for each in stand_ins.begun if each not in (*waiting, drawn)] == [*computing, "made", "alone"]
    assert drawn in stand_ins.begun


def test_what_waits_for_servers_is_begun_beside_the_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stand_ins: StandIns
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    waited: list[bool] = []
    stand_ins.searched = lambda: waited.append(stand_ins.is_begun["02-long"].wait(DEADLINE_S))
    assert prove(PARTS, 0, SEEDS, tmp_path / "prove.json", Console()) == 0
    assert waited == [True]


@pytest.mark.parametrize(("fate", "is_told"), [(Fate.BROKEN, False), (Fate.SURVIVED, True), (Fate.NOT_JUDGED, True)])
def test_a_mutant_of_the_machine_that_nothing_notices_is_shown_with_its_difference(
    tmp_path: Path, stand_ins: StandIns, capsys: pytest.CaptureFixture[str], fate: Fate, is_told: bool
) -> None:
    stand_ins.fate_of_made = fate
    assert prove(["machine"], 7, SEEDS, tmp_path / "prove.json", Console(width=200)) == 0
    told = capsys.readouterr().out
    assert "machine: 1 mutants, drawn by seed 7" in told
    assert (f"{LOG.definition}: x" in told) == is_told


@pytest.mark.parametrize(
    ("part", "begun"),
    [
        ("explorer", "search"),
        ("simulator", "seeds from 0"),
        ("mutants", "control of the kafka kit"),
        ("machine", "drawn by 0"),
    ],
)
def test_of_one_part_alone_no_other_is_begun_or_told(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stand_ins: StandIns,
    capsys: pytest.CaptureFixture[str],
    part: str,
    begun: str,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    prove([part], 0, SEEDS, tmp_path / "prove.json", Console(width=200))
    assert stand_ins.begun[0] == begun
    bars = [row.split()[0] for row in capsys.readouterr().out.splitlines() if ":" in row.split()[-1]]
    assert bars == [{"explorer": "searches", "simulator": "seeds"}.get(part, part)]
