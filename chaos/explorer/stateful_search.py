"""The search through what can happen to a state."""

from __future__ import annotations

from dataclasses import dataclass

from tpc.chaos.explorer.search import Exploration
from tpc.chaos.explorer.small_search import SmallSearch
from tpc.chaos.explorer.stateful import StateWorld, moves
from tpc.chaos.explorer.stateful_invariants import check, is_goal


@dataclass(frozen=True)
class StateScope:
    """How much may happen to a state beside what must."""

    state_faults: int = 2
    epochs: int = 3

    def run(self) -> Exploration:
        """Search all of it, until something is violated."""
        return SmallSearch(moves, check, is_goal).run(StateWorld(epochs=self.epochs, faults=self.state_faults))
