"""What is worth telling of a pipeline, made of the machine's transitions: one notice per turn of an epoch or a start.

Who is told, and how, is in `listeners`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.transition import Transition
from tpc.effects import Stop
from tpc.errors import FencedError, OperatorActedError, ParkedError, TpcError
from tpc.events import Opened, Stored
from tpc.states import Phase


class Turn(str, Enum):
    """What has happened."""

    RECOVERED = "recovered"
    """A coordinator has taken over: what was decided is finished, what was not is swept."""
    DECIDED = "decided"
    """The intent of an epoch is durable."""
    COMPLETE = "complete"
    """The complete record of an epoch is durable."""
    PARKED = "parked"
    """A sink refuses a decided epoch for good."""
    FENCED = "fenced"
    """Another coordinator leads."""
    FAILED = "failed"
    """The work on an epoch has ended with another error."""


@dataclass(frozen=True)
class Notice:
    """`seconds` and `rows` are of the epoch; of a start (`RECOVERED`), `seconds` is how long it took."""

    turn: Turn
    pipeline: str
    generation: int
    epoch: int | None = None
    sink: str | None = None
    seconds: float | None = None
    rows: int | None = None
    error: Exception | None = None


class Notices:
    """Makes notices of one engine's transitions, which must come in their order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at: float | None = None
        """When the recovery that goes on began."""

    def of(self, transition: Transition) -> Notice | None:
        """The notice that a transition is worth, if any."""
        before, after = transition.before, transition.after
        if isinstance(transition.event, Opened):
            self._began_at = self._clock.monotonic()
        elif after.phase is Phase.STOPPED:
            return _stopped(transition)
        elif isinstance(transition.event, Stored) and before.phase is Phase.DECIDING:
            return _of_epoch(Turn.DECIDED, transition)
        elif isinstance(transition.event, Stored) and before.phase is Phase.COMPLETING:
            return _of_epoch(Turn.COMPLETE, transition)
        elif after.phase is Phase.READY and self._began_at is not None:
            seconds, self._began_at = self._clock.monotonic() - self._began_at, None
            pipeline, epoch = after.pipeline.name, after.last_complete
            return Notice(Turn.RECOVERED, pipeline, after.generation, epoch, seconds=seconds)
        return None


def _of_epoch(turn: Turn, transition: Transition) -> Notice:
    state = transition.before
    manifest = state.proposed or state.pending
    assert manifest is not None
    return Notice(
        turn,
        state.pipeline.name,
        state.generation,
        manifest.epoch,
        seconds=sum(transition.seconds.values()),
        rows=manifest.counts.get("rows", 0),
    )


_TURNS: dict[type[Exception], Turn] = {
    ParkedError: Turn.PARKED,
    OperatorActedError: Turn.FAILED,
    FencedError: Turn.FENCED,
}


def _stopped(transition: Transition) -> Notice:
    [error] = [effect.error for effect in transition.effects if isinstance(effect, Stop)]
    state = transition.before
    turn = next((turn for kind, turn in _TURNS.items() if isinstance(error, kind)), Turn.FAILED)
    epoch, sink = (error.epoch, error.sink) if isinstance(error, TpcError) else (None, None)
    epoch = state.epoch if epoch is None else epoch
    return Notice(turn, state.pipeline.name, state.generation, epoch, sink, error=error)
