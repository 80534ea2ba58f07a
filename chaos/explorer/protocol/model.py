"""The search through what can happen to the protocol."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass

from tpc.chaos.explorer.protocol import checks
from tpc.chaos.explorer.protocol.moves import moves, started
from tpc.chaos.explorer.protocol.world import ExploredWorld
from tpc.chaos.explorer.search import Exploration, Model, Move, Search


@dataclass(frozen=True)
class Scope:
    """How much may happen in one search beside what must; losses are those of a sink's markers."""

    faults: int
    rivals: int
    renewals: int = 0
    give_ups: int = 0
    losses: int = 0
    log_losses: int = 0

    def run(self) -> Exploration:
        """Search all of it, until something is violated."""
        return Search(ProtocolModel(self)).run()


class ProtocolModel(Model[ExploredWorld]):
    """Everything that coordinators, sinks, the log and an operator can do, and what must hold meanwhile."""

    first_label = "a coordinator is started"

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self._scope = scope

    def first(self) -> ExploredWorld:
        """One coordinator, and nothing else yet."""
        return started(ExploredWorld(**asdict(self._scope)))

    def moves(self, world: ExploredWorld) -> Iterator[Move[ExploredWorld]]:
        """See `protocol.moves`."""
        return moves(world, self.coverage)

    def check(self, world: ExploredWorld) -> None:
        """See `checks.check_state`."""
        checks.check_state(world)

    def is_goal(self, world: ExploredWorld) -> bool:
        """See `checks.is_goal`."""
        return checks.is_goal(world)

    def check_end(self, world: ExploredWorld) -> None:
        """See `checks.check_end`."""
        checks.check_end(world)

    def key(self, world: ExploredWorld) -> Hashable:
        """See `ExploredWorld.key`: a million worlds fit into memory as numbers."""
        return world.key()
