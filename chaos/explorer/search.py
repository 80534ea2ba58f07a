"""The engine of every search: breadth first from one world, each world once, until there is no new one.

A `Model` says what a world is, what can happen next in it, and what must hold. The shortest way to a violation is
told step by step. At the end the engine computes, backwards from the goals, whether every world can still be finished
without another fault.
"""

from __future__ import annotations

import gc
import sys
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar, get_args

from tpc.chaos.explorer.invariants import Violation
from tpc.effects import MachineEffect
from tpc.machine import TRANSITIONS

World = TypeVar("World")


@dataclass(slots=True)
class Move(Generic[World]):
    """One thing that happens, in words, and the world after it. `is_fault`: it need never happen."""

    label: str
    world: World
    is_fault: bool = False


@dataclass
class Coverage:
    """What a search has taken: rows of the transition table, and crashes by effect and side."""

    rows: set[tuple[str, str]] = field(default_factory=set)
    crashes: set[tuple[str, str]] = field(default_factory=set)


class Model(ABC, Generic[World]):
    """A small world to be searched. One search uses it."""

    first_label = ""
    """How the first world came to be; the first step of every trace. Empty: a trace begins with the first move."""

    def __init__(self) -> None:
        self.coverage = Coverage()
        """A model without the machine of the protocol takes nothing of its table."""

    @abstractmethod
    def first(self) -> World:
        """The world that the search begins with."""

    @abstractmethod
    def moves(self, world: World) -> Iterable[Move[World]]:
        """Everything that can happen next. Raises `Violation`."""

    @abstractmethod
    def check(self, world: World) -> None:
        """What must hold in every world. Raises `Violation`."""

    @abstractmethod
    def is_goal(self, world: World) -> bool:
        """Whether nothing is left to do."""

    def check_end(self, world: World) -> None:
        """A world in which nothing but faults can happen. Raises `Violation` that says more than "no way leads on"."""

    def key(self, world: World) -> Hashable:
        """What distinguishes this world from others; equal keys are one world."""
        return world


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


class Search(Generic[World]):
    """One search. `run` may be called once."""

    def __init__(self, model: Model[World]) -> None:
        self._model = model
        self._numbers: dict[Hashable, int] = {}
        self._parents = array("q")
        self._labels: list[str] = []
        self._from = array("q")
        """Moves without a fault, as two columns: from state, to state."""
        self._to = array("q")
        self._goals: list[int] = []
        self._queue: deque[tuple[int, World]] = deque()
        self._at = 0
        """The state that is looked at: a violation is told with the way to it."""

    def run(self) -> Exploration:
        """Search until every state was seen, or until something is violated."""
        found = Exploration()
        collecting = gc.isenabled()
        gc.disable()  # no cycles are made, and looking for them among a million states takes most of the time
        try:
            self._seen(self._model.first(), -1, self._model.first_label)
            while self._queue:
                self._expand(*self._queue.popleft(), found)
            self._check_liveness()
        except Violation as violation:
            found.violated, found.what = violation.name, violation.what
            found.trace = list(self._way_to(self._at))
        finally:
            if collecting:
                gc.enable()
        found.states, found.goals = len(self._labels), len(self._goals)
        taken = self._model.coverage
        found.rows_taken = sorted("/".join(row) for row in taken.rows)
        if not self._queue:
            found.rows_missed = sorted(set(rows()) - set(found.rows_taken))
            found.crashes_missed = sorted(set(crashes()) - {"/".join(crash) for crash in taken.crashes})
        return found

    def _expand(self, number: int, world: World, found: Exploration) -> None:
        self._at = number
        can_go_on = False
        for move in self._model.moves(world):
            found.moves += 1
            to = self._seen(move.world, number, move.label)
            if not move.is_fault:
                can_go_on = True
                self._from.append(number)
                self._to.append(to)
        if not can_go_on:
            self._model.check_end(world)

    def _seen(self, world: World, parent: int, label: str) -> int:
        key = self._model.key(world)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._labels)
            self._parents.append(parent)
            self._labels.append(sys.intern(label))
            self._at = number
            self._model.check(world)
            self._at = max(parent, 0)
            if self._model.is_goal(world):
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
            self._at = stuck
            raise Violation("live", "no way leads from here to the end without another fault")

    def _way_to(self, number: int) -> Iterator[str]:
        way = []
        while number >= 0:
            way.append(self._labels[number])
            number = self._parents[number]
        return (label for label in reversed(way) if label)


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
