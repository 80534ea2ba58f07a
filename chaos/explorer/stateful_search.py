"""The search through what can happen to a state: breadth first, every world once, and from each a way to the end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.search import Exploration, crashes, rows
from tpc.chaos.explorer.stateful import StateWorld, moves
from tpc.chaos.explorer.stateful_invariants import check, is_goal


@dataclass(frozen=True)
class StateScope:
    """How much may happen to a state beside what must."""

    state_faults: int = 2
    epochs: int = 3

    def run(self) -> Exploration:
        """Search all of it, until something is violated. Of the machine's table it takes nothing."""
        found = Exploration(rows_missed=rows(), crashes_missed=crashes())
        first = StateWorld(epochs=self.epochs, faults=self.state_faults)
        came: dict[StateWorld, tuple[StateWorld, str] | None] = {first: None}
        back: dict[StateWorld, list[StateWorld]] = {}
        goals: list[StateWorld] = []
        queue, at = deque([first]), first
        try:
            while queue:
                at = queue.popleft()
                check(at)
                if is_goal(at):
                    goals.append(at)
                for label, world, is_fault in moves(at):
                    found.moves += 1
                    if not is_fault:
                        back.setdefault(world, []).append(at)
                    if world not in came:
                        came[world] = at, label
                        queue.append(world)
            self._check_liveness(came, back, goals)
        except Violation as violation:
            found.violated, found.what, found.trace = violation.name, violation.what, _way(came, at)
        found.states, found.goals = len(came), len(goals)
        return found

    def _check_liveness(
        self,
        came: dict[StateWorld, tuple[StateWorld, str] | None],
        back: dict[StateWorld, list[StateWorld]],
        goals: list[StateWorld],
    ) -> None:
        reaching, queue = set(goals), deque(goals)
        while queue:
            fresh = [world for world in back.get(queue.popleft(), []) if world not in reaching]
            reaching.update(fresh)
            queue.extend(fresh)
        for world in came:
            if world not in reaching:
                what = "no way leads from here to the end without another fault"
                raise Violation("live", f"{what}: {' / '.join(_way(came, world))}")


def _way(came: dict[StateWorld, tuple[StateWorld, str] | None], world: StateWorld) -> list[str]:
    """The shortest way to a world."""
    way = []
    while (step := came[world]) is not None:
        world, label = step
        way.append(label)
    return way[::-1]
