"""The search itself: breadth first from the empty world, every state once, until there is no new one.

The shortest way to a violation is told step by step. At the end it is computed backwards from the goals which states
can still be finished without a fault; and every row of the transition table and every crash must have been taken.
"""

from __future__ import annotations

import gc
import sys
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from tpc.chaos.explorer.acting import Coverage
from tpc.chaos.explorer.invariants import Violation, check_end, check_state, is_goal
from tpc.chaos.explorer.moves import moves, started
from tpc.chaos.explorer.world import ExploredWorld
from tpc.effects import MachineEffect
from tpc.machine import TRANSITIONS


@dataclass
class Exploration:
    """What a search has found. `violated` names an invariant; `trace` is the shortest way to it."""

    states: int = 0
    moves: int = 0
    goals: int = 0
    violated: str | None = None
    what: str = ""
    trace: list[str] = field(default_factory=list)
    rows_missed: list[str] = field(default_factory=list)
    crashes_missed: list[str] = field(default_factory=list)
    rows_taken: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether nothing was violated and nothing was left out."""
        return self.violated is None and not self.rows_missed and not self.crashes_missed

    def to_json(self) -> dict[str, Any]:
        """For the record of a proof."""
        return asdict(self)


class Search:
    """One search. `run` may be called once."""

    def __init__(
        self,
        *,
        faults: int = 2,
        rivals: int = 1,
        renewals: int = 0,
        give_ups: int = 0,
        losses: int = 0,
        log_losses: int = 0,
        max_states: int | None = None,
    ) -> None:
        world = ExploredWorld(
            faults=faults, rivals=rivals, renewals=renewals, give_ups=give_ups, losses=losses, log_losses=log_losses
        )
        self._first = started(world)
        self._max_states = max_states
        self._numbers: dict[tuple[int, ...], int] = {}
        self._parents = array("q")
        self._labels: list[str] = []
        self._from = array("q")
        """Moves without a fault, as two columns: from state, to state."""
        self._to = array("q")
        self._goals: list[int] = []
        self._queue: deque[tuple[int, ExploredWorld]] = deque()
        self.coverage = Coverage()
        self.exploration = Exploration()

    def run(self) -> Exploration:
        """Search until every state was seen, or until something is violated."""
        collecting = gc.isenabled()
        gc.disable()  # no cycles are made, and looking for them among a million states takes most of the time
        try:
            return self._run()
        finally:
            if collecting:
                gc.enable()

    def _run(self) -> Exploration:
        self._seen(self._first, -1, "a coordinator is started")
        try:
            while self._queue and (self._max_states is None or len(self._labels) < self._max_states):
                self._expand(*self._queue.popleft())
            if not self._queue:
                self._check_liveness()
        except Violation as violation:
            self.exploration.violated, self.exploration.what = violation.name, violation.what
        exploration = self.exploration
        exploration.states, exploration.goals = len(self._labels), len(self._goals)
        exploration.rows_taken = sorted("/".join(row) for row in self.coverage.rows)
        if not self._queue:
            exploration.rows_missed = sorted(set(rows()) - {"/".join(row) for row in self.coverage.rows})
            exploration.crashes_missed = sorted(set(crashes()) - {"/".join(crash) for crash in self.coverage.crashes})
        return exploration

    def _expand(self, number: int, world: ExploredWorld) -> None:
        can_go_on = False
        try:
            for move in moves(world, self.coverage):
                self.exploration.moves += 1
                to = self._seen(move.world, number, move.label)
                can_go_on = can_go_on or not move.is_fault
                if not move.is_fault:
                    self._from.append(number)
                    self._to.append(to)
            if not can_go_on:
                check_end(world)
        except Violation:
            self.exploration.trace = list(self._way_to(number))
            raise

    def _seen(self, world: ExploredWorld, parent: int, label: str) -> int:
        key = world.key()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._labels)
            self._parents.append(parent)
            self._labels.append(sys.intern(label))
            check_state(world)
            if is_goal(world):
                self._goals.append(number)
            self._queue.append((number, world))
        return number

    def _check_liveness(self) -> None:
        """Every state must have a way to a goal without a fault."""
        reaching = bytearray(len(self._labels))
        for number in self._goals:
            reaching[number] = 1
        changed = True
        while changed:  # most moves lead to a later state, so few rounds from the last move to the first are enough
            changed = False
            for origin, to in zip(reversed(self._from), reversed(self._to), strict=True):
                if reaching[to] and not reaching[origin]:
                    reaching[origin] = changed = True
        stuck = reaching.find(0)
        if stuck >= 0:
            self.exploration.trace = list(self._way_to(stuck))
            raise Violation("live", "no way leads from here to the end without another fault")

    def _way_to(self, number: int) -> Iterator[str]:
        way = []
        while number >= 0:
            way.append(self._labels[number])
            number = self._parents[number]
        return reversed(way)


def rows() -> list[str]:
    """Every row of the transition table, all of which the searches together must have taken."""
    return sorted(f"{phase.name}/{event.__name__}" for phase, event in TRANSITIONS)


def crashes() -> list[str]:
    """A death before and after every effect; after those that touch nothing outside it is the one before the next."""
    local = {"Release", "Warn", "Stop"}
    names = [effect.__name__ for effect in get_args(MachineEffect)]
    return sorted(
        f"{name}/{when}" for name in names for when in ("before", "after") if when == "before" or name not in local
    )
