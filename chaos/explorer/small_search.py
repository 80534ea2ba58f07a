"""A search through a world that is small enough to be kept whole: breadth first, every world once.

From each there must be a way to an end; the shortest way to a violation is told. Of the machine's table it takes
nothing.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import Generic, TypeVar

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.search import Exploration, crashes, rows

World = TypeVar("World", bound=Hashable)


class SmallSearch(Generic[World]):
    """`moves` tells what can happen next: in words, the world after it, and whether it is a fault."""

    def __init__(
        self,
        moves: Callable[[World], Iterable[tuple[str, World, bool]]],
        check: Callable[[World], None],
        is_goal: Callable[[World], bool],
    ) -> None:
        self._moves = moves
        self._check = check
        self._is_goal = is_goal
        self._numbers: dict[World, int] = {}
        self._parents: list[tuple[int, str]] = []
        """How each world was come to first: from which, and by what."""
        self._back: list[list[int]] = []
        """Moves without a fault, backwards."""
        self._goals: list[int] = []

    def run(self, first: World) -> Exploration:
        """Search all of it, until something is violated."""
        found = Exploration(rows_missed=rows(), crashes_missed=crashes())
        collecting = gc.isenabled()
        gc.disable()  # no cycles are made, and looking for them among so many worlds takes most of the time
        try:
            self._search(first, found)
        except Violation as violation:
            found.violated, found.what = violation.name, violation.what
        finally:
            if collecting:
                gc.enable()
        found.states, found.goals = len(self._numbers), len(self._goals)
        return found

    def _search(self, first: World, found: Exploration) -> None:
        self._seen(first, -1, "")
        queue = deque([first])
        for number in count():
            if not queue:
                break
            at = queue.popleft()
            try:
                self._check(at)
                if self._is_goal(at):
                    self._goals.append(number)
                for label, world, is_fault in self._moves(at):
                    found.moves += 1
                    known = len(self._parents)
                    to = self._seen(world, number, label)
                    if to == known:
                        queue.append(world)
                    if not is_fault:
                        self._back[to].append(number)
            except Violation:
                found.trace = self._way(number)
                raise
        self._check_liveness(found)

    def _seen(self, world: World, parent: int, label: str) -> int:
        number = self._numbers.setdefault(world, len(self._parents))
        if number == len(self._parents):
            self._parents.append((parent, label))
            self._back.append([])
        return number

    def _check_liveness(self, found: Exploration) -> None:
        reaching, queue = set(self._goals), deque(self._goals)
        while queue:
            fresh = {number for number in self._back[queue.popleft()] if number not in reaching}
            reaching.update(fresh)
            queue.extend(fresh)
        stuck = next((number for number in range(len(self._parents)) if number not in reaching), None)
        if stuck is not None:
            found.trace = self._way(stuck)
            raise Violation("live", "no way leads from here to the end without another fault")

    def _way(self, number: int) -> list[str]:
        """The shortest way to a world."""
        way = []
        while number > 0:
            number, label = self._parents[number]
            way.append(label)
        return way[::-1]
