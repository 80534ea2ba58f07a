"""What the engine hands out: every step of the machine, for those who tell of it. They decide nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpc.effects import MachineEffect
from tpc.events import Event
from tpc.history import History
from tpc.states import MachineState


@dataclass(frozen=True)
class Transition:
    """`event` came in the state `before`; `after` and `effects` follow. No effect is carried out yet."""

    before: MachineState
    event: Event
    after: MachineState
    effects: tuple[MachineEffect, ...]
    history: History
    """What the log held when `event` came."""
    seconds: Mapping[str, float]
    """How long each phase of the current epoch has taken so far; goes on, so it must be read at once."""


Observer = Callable[[Transition], None]
"""Must not raise, and must not wait: it runs in the engine's thread, between an event and its effects."""


def nobody(_: Transition) -> None:
    """The observer of an engine that nobody observes."""
