"""The search through what can happen to the checkpoint of a driver that moves."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tpc.chaos.explorer.moving import MovingWorld, check, is_goal, moves
from tpc.chaos.explorer.search import Exploration
from tpc.chaos.explorer.small_search import SmallSearch
from tpc.coordinator.spark import reconcile


@dataclass(frozen=True)
class MovingScope:
    """How often drivers may die, or be taken for dead, while the source's rows are read."""

    moving_faults: int = 3

    def run(self) -> Exploration:
        """Search all of it, until something is violated."""
        said = logging.getLogger(reconcile.__name__)
        level = said.level
        said.setLevel(logging.ERROR)  # it warns of each of the many plans that it puts right
        try:
            return SmallSearch(moves, check, is_goal).run(MovingWorld(faults=self.moving_faults))
        finally:
            said.setLevel(level)
