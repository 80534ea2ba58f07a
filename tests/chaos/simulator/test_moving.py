"""The simulated pipeline is moved: what goes on, what is left behind, and what is refused afterwards."""

from __future__ import annotations

from random import Random

import pytest

from tpc.chaos.simulator.log_disk import SimulatedLog
from tpc.chaos.simulator.moving import move
from tpc.chaos.simulator.plan import FaultPlan
from tpc.chaos.simulator.simulation import MOVES, Simulation
from tpc.chaos.simulator.world import Message
from tpc.coordinator.kernel.log.journal import Journal
from tpc.errors import ConfigurationError
from tpc.records import RecordKind

pytestmark = pytest.mark.slow  # much computing

SEED = 4


@pytest.fixture
def simulation() -> Simulation:
    """With epochs that are complete, and nobody who runs."""
    simulation = Simulation(SEED, FaultPlan())
    with simulation.watched():
        while len(simulation.ledger.complete) < 2:
            simulation.supervisor.turn()
        simulation.supervisor.end_all()
    return simulation


def test_the_old_log_opens_no_more_and_the_pipeline_finishes_at_the_new_place(simulation: Simulation) -> None:
    left = move(simulation.place, simulation.ledger)
    assert left is not None
    with pytest.raises(ConfigurationError, match="was moved to"):
        Journal(SimulatedLog(left.place.log)).open()
    with simulation.watched():
        simulation.finish()
    assert max(simulation.place.log.content) > max(left.place.log.content)


def test_a_record_that_arrives_before_the_last_one_keeps_the_pipeline_where_it_is(simulation: Simulation) -> None:
    log = simulation.place.log
    journal = Journal(SimulatedLog(log))
    journal.open()
    late = journal.next_record(RecordKind.RESOLUTION, {"epoch": 0, "sink": "x", "action": "accept-loss", "ends": {}})

    def lands() -> None:
        log.land(late.slot, late.encode(), synced=True)

    simulation.world.messages.append(Message("a put of somebody", 2, lands))  # behind the first look
    assert move(simulation.place, simulation.ledger) is None
    assert simulation.place.log is log
    assert any("the pipeline is not moved" in line for line in simulation.world.transcript)
    assert log.end == late.slot


def test_what_must_be_refused_after_a_move_is_tried() -> None:
    tried = set[str]()
    for seed in (seed for seed in range(300) if Random(f"moves {seed}").random() < MOVES):
        told = Simulation(seed).run().transcript
        wanted = ("at the place that was left", "from a second copy of the savepoint", "is a fork of")
        tried.update(what for what in wanted for line in told if what in line and "is refused" in line)
    assert len(tried) == 3
