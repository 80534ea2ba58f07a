"""What a service runs in an epoch: its inputs, the user's functions, and what these change, event by event.

How the functions are run is the affair of `computing.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tpc.coordinator.service.cut_events import EventTime
from tpc.coordinator.service.output import Output
from tpc.durations import require_length
from tpc.errors import ConfigurationError
from tpc.json import JSONObject
from tpc.source import Source
from tpc.time_to_live import TimeToLive
from tpc.user_code import name_of, require_done, require_plain
from tpc.watermark import AHEAD_MAX_S


class Undoable(Protocol):
    """What changes with each event, and of which what one event has changed can be undone."""

    def begin_event(self) -> None:
        """What changes from here on is of one event, until `end_event`."""

    def check_event(self) -> None:
        """Raise `DataError` for what the event has left that cannot be kept."""

    def end_event(self, *, is_kept: bool) -> None:
        """Keep what has changed since `begin_event`, or undo it."""


class KeyedState(Undoable, Protocol):
    """What the service asks of a state (`tpc.coordinator.service.state.State`); what functions ask is a mapping's."""

    name: str
    ttl_ms: int | None

    @property
    def follows_time(self) -> bool:
        """Whether `at` tells it something: its entries have a time to live, or it is a timer."""

    def restore(self, *, before: int | None = None) -> None:
        """Read it from its store: as it is, or as it was before an epoch that is decided and not complete."""

    def begin(
        self, epoch: int, watermark_ms: int | None = None, reached_ms: int | None = None, life: TimeToLive | None = None
    ) -> None:
        """Begin an epoch at a watermark, which its events bring to `reached_ms` at most. `life`: see `TimeToLive`."""

    def at(self, event_ms: int | None, watermark_ms: int | None, *, is_firing: bool = False) -> None:
        """The event at hand has this time, and those before it have brought the watermark to there.

        `is_firing`: it is no event, but a firing that was due at `event_ms`; None for one by the clock.
        """

    def changes(self) -> Any:
        """The cut: what the epoch has changed, as an Arrow batch."""

    def logged(self, position: JSONObject | None) -> Sequence[Any]:
        """After the cut: the batches for its changelog, which stands at `position`."""

    def abandon(self) -> None:
        """The epoch is aborted."""

    def close(self) -> None:
        """Let go of the store; `restore` opens it again."""


@dataclass(frozen=True)
class Input:
    """A source of a service, as `service.read` returns it. `time` tells the time of its events.

    `idle_after_s`, `ahead_max_ms`: see `service.read`.
    """

    source: Source
    time: EventTime | None
    idle_after_s: float | None = None
    ahead_max_ms: int = round(AHEAD_MAX_S * 1000)

    @property
    def name(self) -> str:
        """The source's name."""
        return self.source.name


def input_of(source: Source, time: EventTime | None, idle_after_s: float | None, ahead_max_s: float) -> Input:
    """What the user says of a source. Raises `ConfigurationError` for what means nothing."""
    if time is not None:
        require_plain(time, f"time= of source {source.name!r}")
    for name, length_s in (("idle_after", idle_after_s), ("ahead_max", ahead_max_s)):
        if length_s is not None:
            require_length(f"source {source.name!r}", name, length_s)
    if idle_after_s is not None and time is None:
        raise ConfigurationError(
            f"source {source.name!r} is read with idle_after, and its events have no time: it holds no watermark back",
            remedy="say where the time stands, service.read(source, time=...), or leave idle_after out.",
        )
    return Input(source, time, idle_after_s, round(ahead_max_s * 1000))


@dataclass(frozen=True)
class Function:
    """`call` gets the events of `inputs`, one by one or (`is_batch`) all of an epoch; without inputs, `out` alone.

    `timers` fire in its pass: see `firing`.
    """

    call: Callable[..., Any]
    inputs: tuple[Input, ...] = ()
    is_batch: bool = False
    timers: tuple[object, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """What errors call it."""
        return f"function {name_of(self.call)}"

    def run(self, out: Output, *arguments: Any) -> None:
        """Call it. Raises `ConfigurationError` where its answer stands for work that is not done."""
        if (answer := self.call(*arguments, out)) is not None:
            require_done(answer, self.name)
