"""One coordinator about to act: helpers that say what it did and feed the machine what happened.

They note which rows of the transition table and which crashes the search has taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.protocol.branches import SINKS
from tpc.chaos.explorer.protocol.world import Actor, ExploredWorld, Stray
from tpc.chaos.explorer.search import Coverage, Move
from tpc.effects import MachineEffect
from tpc.errors import StateMachineError
from tpc.events import Event
from tpc.machine import step


@dataclass(frozen=True)
class Acting:
    """A coordinator of a world, with its first effect."""

    world: ExploredWorld
    index: int
    coverage: Coverage

    @property
    def actor(self) -> Actor:
        """The coordinator."""
        return self.world.actors[self.index]

    @property
    def effect(self) -> Any:
        """What it has to do first."""
        return self.actor.todo[0]

    @property
    def name(self) -> str:
        """The coordinator, in words."""
        return f"coordinator {self.actor.number}"

    def says(
        self, label: str, event: Event, *, world: ExploredWorld | None = None, fault: bool = False, **more: Any
    ) -> Move[ExploredWorld]:
        """The effect is over and `event` is its answer: the machine says what follows. `more` changes the actor."""
        actor, world = self.actor, world or self.world
        self.coverage.rows.add((actor.state.phase.name, type(event).__name__))
        try:
            state, effects = step(actor.state, event)
        except (StateMachineError, AssertionError) as error:
            raise Violation("legal", f"{self.name}: {error!r}") from error
        todo: tuple[MachineEffect, ...] = (*actor.todo[1:], *effects)
        after = replace(actor, state=state, todo=todo, progress=(), **more)
        return self._moved(label, world.with_actor(self.index, after), fault)

    def done(self, label: str, *, world: ExploredWorld | None = None, **more: Any) -> Move[ExploredWorld]:
        """The effect is over and has no answer."""
        after = replace(self.actor, todo=self.actor.todo[1:], progress=(), **more)
        return self._moved(label, (world or self.world).with_actor(self.index, after), fault=False)

    def goes_on(
        self, label: str, world: ExploredWorld, progress: tuple[Any, ...], *, fault: bool = False
    ) -> Move[ExploredWorld]:
        """The effect has come so far."""
        return self._moved(label, world.with_actor(self.index, replace(self.actor, progress=progress)), fault)

    def crash(
        self, when: str, *, world: ExploredWorld | None = None, under_way: Iterable[tuple[int, Stray]] = ()
    ) -> Move[ExploredWorld]:
        """The process dies before or after its effect, or between two.

        What it has sent may still arrive: `under_way` is what a sink may not have got yet of an effect that is sent
        to all sinks at once.
        """
        world = world or self.world
        if self.actor.todo:
            self.coverage.crashes.add((type(self.effect).__name__, when))
        for sink, stray in under_way:
            world = world.with_stray(sink, stray)
        what = type(self.effect).__name__ if self.actor.todo else ""
        return self._moved(f"crash {when} {what}".rstrip(), world.with_actor(self.index, None), fault=True)

    def _moved(self, label: str, world: ExploredWorld, fault: bool) -> Move[ExploredWorld]:
        if fault:
            world = replace(world, faults=world.faults - 1)
        return Move(f"{self.name}: {label}", world, fault)


def fresh_progress(whole: str = "begun") -> tuple[Any, ...]:
    """The progress of an effect that has just begun."""
    return (whole, *(None for _ in SINKS))


def set_progress(progress: tuple[Any, ...], sink: int, value: Any) -> tuple[Any, ...]:
    """`progress` with one sink's entry changed."""
    return (*progress[: 1 + sink], value, *progress[2 + sink :])
