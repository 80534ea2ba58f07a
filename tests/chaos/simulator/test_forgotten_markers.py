"""Markers expire while the end of the log is damaged: the epoch that it has decided is not written a second time.

The runs are those in which a start that takes absence for a proof voids the record of a committed epoch.
"""

from __future__ import annotations

from random import Random

import pytest

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.plan import FaultPlan, Strike
from tpc.chaos.simulator.simulation import Simulation

pytestmark = pytest.mark.slow  # much computing

PLACES = ("sink.commit", "epoch.decided", "epoch.committed", "epoch.completed")
NOTHING_PROVES = "nothing in the sink proves that the record has decided nothing"


def damaged_and_forgotten(seed: int) -> Simulation:
    """The power is cut in an epoch, the newest record is damaged, and a sink forgets what it has written first."""
    random = Random(f"hunt {seed}")
    place = random.choice(PLACES)
    cut = Strike(Fault.POWER_CUT, random.randrange(20 if place == "sink.commit" else 12), place)
    forgotten = Strike(Fault.MARKERS_EXPIRED, random.randrange(6))
    return Simulation(seed, FaultPlan.of([Strike(Fault.LOG_DAMAGED), cut, forgotten]))


@pytest.mark.parametrize("seed", [585, 858, 1499, 1835, 2343])
def test_a_record_whose_epoch_is_committed_and_forgotten_is_not_voided(seed: int) -> None:
    result = damaged_and_forgotten(seed).run()
    assert {"log-damaged", "markers-expired"} <= result.faults.keys()
    assert any(NOTHING_PROVES in line for line in result.transcript)
