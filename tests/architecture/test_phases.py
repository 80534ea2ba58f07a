"""The picture of the phases: everything that a run does is in it, and every phase."""

from __future__ import annotations

from typing import Any

import pytest

from tests.architecture.phases import state_diagram
from tpc.chaos.simulator import simulation
from tpc.events import Failed, Superseded
from tpc.machine import step
from tpc.states import MachineState, Phase

SEEDS = range(1, 5)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> set[tuple[Phase, type[Any], Phase]]:
    """Every step that simulated coordinators make: the phase before, the event, the phase after."""
    made: set[tuple[Phase, type[Any], Phase]] = set()

    def recorded(state: MachineState, event: Any) -> Any:
        after, effects = step(state, event)
        made.add((state.phase, type(event), after.phase))
        return after, effects

    monkeypatch.setattr(simulation, "step", recorded)
    monkeypatch.setattr(vars(simulation)["production"], "step", step)  # where a simulation puts `step` back
    return made


def test_every_step_of_a_simulated_run_is_in_the_picture(steps: set[tuple[Phase, type[Any], Phase]]) -> None:
    for seed in SEEDS:
        simulation.Simulation(seed).run()
    drawn = state_diagram()
    seen = [
        f"{before.value} --> {after.value}: {event.__name__}"
        for before, event, after in steps
        if not (after is Phase.STOPPED and event in (Failed, Superseded))
    ]
    assert len(seen) > 10
    assert [line for line in seen if line not in drawn] == []


def test_every_phase_can_be_reached_and_left() -> None:
    edges = [line.split(":")[0].split(" --> ") for line in state_diagram().splitlines()[1:]]
    assert {begin.strip() for begin, _ in edges} >= {phase.value for phase in Phase}
    assert {end.strip() for _, end in edges} >= {phase.value for phase in Phase}
