"""A thousand seeds of the production coordinator in the simulated world, and that the same seed is the same run."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tpc.chaos.simulator.command import run_simulate
from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.simulation import simulate, simulate_block
from tpc.coordinator.kernel.participants import Participants
from tpc.events import Failed, Superseded
from tpc.machine import TRANSITIONS
from tpc.states import Phase

pytestmark = pytest.mark.slow  # much computing

SEEDS = 1000

NEVER_TAKEN = {
    (Phase.READY, Failed),  # the shell has no call that fails there
    (Phase.REPLAYING, Superseded),  # a successor while a lost branch is replayed: rare; the explorer goes there
}


@pytest.fixture(scope="module")
def block() -> dict[str, Any]:
    return simulate_block(0, SEEDS)


def test_a_thousand_seeds_hold(block: dict[str, Any]) -> None:
    assert block["violations"] == []
    assert block["epochs"] > 5 * SEEDS


def test_every_kind_of_fault_strikes(block: dict[str, Any]) -> None:
    assert sorted(name for name, times in block["faults"].items() if not times) == []
    assert set(block["faults"]) == {fault.value for fault in Fault}


def test_every_row_of_the_machine_s_table_is_taken(block: dict[str, Any]) -> None:
    rows = {f"{phase.value}/{event.__name__}" for phase, event in TRANSITIONS if (phase, event) not in NEVER_TAKEN}
    assert rows - block["transitions"].keys() == set()


def test_coordinators_meet_and_fence_each_other(block: dict[str, Any]) -> None:
    assert block["ends"]["FencedError"] > SEEDS / 20


@pytest.mark.parametrize("seed", [3, 311])
def test_the_same_seed_is_the_same_run(seed: int) -> None:
    first, second = simulate(seed), simulate(seed)
    assert first.transcript == second.transcript
    assert first.transitions == second.transitions


def test_other_seeds_are_other_runs() -> None:
    assert len({simulate(seed).transcript for seed in range(20)}) == 20


def test_a_run_does_not_depend_on_the_hashes_of_the_process() -> None:
    program = "from tpc.chaos.simulator.simulation import simulate; print('\\n'.join(simulate(3).transcript))"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for hashes in ("1", "2")
    }
    assert told == {"\n".join(simulate(3).transcript) + "\n"}


def test_a_violation_is_told_with_its_seed_and_its_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Participants, "sweep", lambda *_: 0)
    record = simulate_block(0, 10)
    failed = record["violations"][0]
    assert failed["invariant"] == "no-leftovers"
    assert run_simulate(failed["seed"]) == 1
    told = capsys.readouterr().out
    assert f"seed {failed['seed']}: VIOLATED no-leftovers" in told
    assert "c1 is started" in told


def test_a_trace_tells_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_simulate(3, trace=True) == 0
    told = capsys.readouterr().out
    assert "log: slot 1 generation 1" in told
    assert "spark: batch 0" in told
    assert "seed 3: everything held" in told
