"""The simulated log goes away under a running coordinator: noticed, never taken for a fence, and repaired."""

from __future__ import annotations

import pytest

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.plan import RECORDS, FaultPlan, Strike
from tpc.chaos.simulator.simulation import Simulation

pytestmark = pytest.mark.slow  # much computing

SEEDS = 3
BEFORE_AND_AFTER = [f"{place}{when}" for place in (*RECORDS[:2], RECORDS[3]) for when in ("", ".after")]


@pytest.mark.parametrize("place", [*BEFORE_AND_AFTER, "log.goes_on"])
@pytest.mark.parametrize("fault", [Fault.LOG_GONE, Fault.LOG_OLDER])
def test_a_log_that_loses_records_ends_its_coordinator_and_all_is_finished_later(fault: Fault, place: str) -> None:
    struck = 0
    for seed in range(SEEDS):
        result = Simulation(seed, FaultPlan.of([Strike(fault, 2, place)])).run()
        if result.faults.get(fault.value):
            struck += 1
            assert "LogGoneError" in result.ends
            assert "FencedError" not in result.ends
    assert struck


def test_a_second_coordinator_goes_on_in_an_older_copy_while_the_first_one_writes() -> None:
    """Whoever lacks what he knows decides nothing more; who goes on doubles and loses nothing (judged by `run`)."""
    went_on, ends = 0, set[str]()
    for seed in range(5):
        for place in BEFORE_AND_AFTER:
            result = Simulation(seed, FaultPlan.of([Strike(Fault.LOG_FORKED, 1, place)])).run()
            if any("the log goes on without slots" in line for line in result.transcript):
                went_on += 1
                ends |= set(result.ends)
    assert went_on >= 5
    assert "LogGoneError" in ends
