"""The search through what can happen to a service."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from tpc.chaos.explorer.search import Exploration, Model, Move, Search
from tpc.chaos.explorer.service import checks
from tpc.chaos.explorer.service.moves import moves
from tpc.chaos.explorer.service.process import asks
from tpc.chaos.explorer.service.program import EVENTS
from tpc.chaos.explorer.service.world import ServiceWorld
from tpc.coordinator import service


@dataclass(frozen=True)
class ServiceScope:
    """How much may happen to a service beside what must; its state is held in memory, or read from its store.

    With timers the clock shows one of three times at each cut, a fault may let it go back, and epochs are cut for what
    is due. `timed_events` is how many events the source has that tells the time.
    """

    service_faults: int = 2
    on_disk: bool = False
    timers: bool = False
    timed_events: int = 3

    def run(self) -> Exploration:
        """Search all of it, until something is violated."""
        said = logging.getLogger(service.__name__)
        level = said.level
        said.setLevel(logging.ERROR)  # it warns of each of the many repairs, and of clocks that go back
        asks.cache_clear()  # what processes ask depends on the code, which a test may have changed
        try:
            return Search(ServiceModel(self)).run()
        finally:
            asks.cache_clear()
            said.setLevel(level)


class ServiceModel(Model[ServiceWorld]):
    """Everything that can happen to a service and its sources, and what must hold meanwhile."""

    def __init__(self, scope: ServiceScope) -> None:
        super().__init__()
        self._scope = scope

    def first(self) -> ServiceWorld:
        """A process has begun, and there is nothing yet."""
        scope = self._scope
        lengths = (scope.timed_events, len(EVENTS[1]))
        return ServiceWorld(
            faults=scope.service_faults, is_on_disk=scope.on_disk, has_timers=scope.timers, lengths=lengths
        )

    def moves(self, world: ServiceWorld) -> Iterator[Move[ServiceWorld]]:
        """See `service.moves`."""
        return moves(world)

    def check(self, world: ServiceWorld) -> None:
        """See `checks.check`."""
        checks.check(world)

    def is_goal(self, world: ServiceWorld) -> bool:
        """See `checks.is_goal`."""
        return checks.is_goal(world)
