"""What is explored of every mutant runs on the code as it is: what the searches drive may change under them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tpc.chaos.explorer.service.model import ServiceScope
from tpc.chaos.explorer.stateful import StateScope
from tpc.chaos.prove.checks import SMALL


@pytest.mark.slow
def test_the_searches_through_a_state_and_a_loop_run_and_hold_without_a_fault() -> None:
    found = [replace(scope, state_faults=0).run() for scope in SMALL if isinstance(scope, StateScope)]
    found += [replace(scope, service_faults=0).run() for scope in SMALL if isinstance(scope, ServiceScope)]
    assert [exploration.what for exploration in found] == ["", "", ""]
    assert all(exploration.goals for exploration in found)
