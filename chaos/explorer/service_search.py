"""The search through what can happen to a service."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from tpc.chaos.explorer.search import Exploration
from tpc.chaos.explorer.service_invariants import check, is_goal
from tpc.chaos.explorer.service_moves import moves
from tpc.chaos.explorer.service_process import asks
from tpc.chaos.explorer.service_world import ServiceWorld
from tpc.chaos.explorer.small_search import SmallSearch
from tpc.coordinator.service import running


@dataclass(frozen=True)
class ServiceScope:
    """How much may happen to a service beside what must; its state is held in memory, or read from its store."""

    service_faults: int = 2
    on_disk: bool = False

    def run(self) -> Exploration:
        """Search all of it, until something is violated."""
        said = logging.getLogger(running.__name__)
        level = said.level
        said.setLevel(logging.ERROR)  # it warns of each of the many repairs
        asks.cache_clear()
        try:
            return SmallSearch(moves, check, is_goal).run(
                ServiceWorld(faults=self.service_faults, is_on_disk=self.on_disk)
            )
        finally:
            asks.cache_clear()
            said.setLevel(level)
