"""The user's functions, and how they are run over the events of an epoch: each after the other, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from tpc.coordinator.loop.emitted import Emitted
from tpc.errors import ConfigurationError
from tpc.event_time import AHEAD_MAX_S, NO_EPOCH_TIME, EpochTime, Life
from tpc.json import JSONObject
from tpc.source import Source
from tpc.watermark import Watermark

EventTime = Callable[[Any], int]
"""The time of an event, in milliseconds since 1970."""
_LENGTH_MAX_S = 1000 * 366 * 86_400.0
AT_ONCE = 1024
"""Events that a function gets one by one until it is looked whether their rows are many."""


class KeyedState(Protocol):
    """What the loop asks of a state (`tpc.coordinator.loop.state.State`); what functions ask is a mapping's."""

    name: str
    ttl_ms: int | None

    def restore(self, *, before: int | None = None) -> None:
        """Read it from its store: as it is, or as it was before an epoch that is decided and not complete."""

    def begin(
        self, epoch: int, watermark_ms: int | None = None, reached_ms: int | None = None, life: Life | None = None
    ) -> None:
        """Begin an epoch at a watermark, which its events bring to `reached_ms` at most. `life`: see `Life`."""

    def at(self, event_ms: int | None, watermark_ms: int | None) -> None:
        """The event at hand has this time, and those before it have brought the watermark to there."""

    def changes(self) -> Any:
        """The cut: what the epoch has changed, as an Arrow batch."""

    def logged(self, position: JSONObject | None) -> Sequence[Any]:
        """After the cut: the batches for its changelog, which stands at `position`."""

    def abandon(self) -> None:
        """The epoch is aborted."""


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
    """What the user says of a source. Raises `ConfigurationError` for lengths of time that mean nothing."""
    for name, length_s in (("idle_after", idle_after_s), ("ahead_max", ahead_max_s)):
        if length_s is not None and not 0 < length_s <= _LENGTH_MAX_S:
            raise ConfigurationError(
                f"source {source.name!r} is read with {name}={length_s!r}",
                remedy=f"give a length of time above 0 and of 1,000 years at most: {name}=tpc.seconds(60), say.",
            )
    if idle_after_s is not None and time is None:
        raise ConfigurationError(
            f"source {source.name!r} is read with idle_after, and its events have no time: it holds no watermark back",
            remedy="say where the time stands, service.read(source, time=...), or leave idle_after out.",
        )
    return Input(source, time, idle_after_s, round(ahead_max_s * 1000))


@dataclass(frozen=True)
class Function:
    """`call` gets the events of `inputs`, one by one or (`is_batch`) all of an epoch; without inputs, `out` alone."""

    call: Callable[..., Any]
    inputs: tuple[Input, ...] = ()
    is_batch: bool = False


def run_functions(
    functions: Sequence[Function],
    inputs: Sequence[Input],
    events: Mapping[str, Sequence[Any]],
    states: Sequence[KeyedState],
    out: Emitted,
    time: EpochTime = NO_EPOCH_TIME,
    times: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> None:
    """Run all of them over an epoch's `events`, by the name of their source; where there are none, nothing is run.

    States with a time to live are told the time of the event at hand, or the newest of those at hand, and the watermark
    to which the events before it have come: within one function, so that what a function sees does not depend on which
    others there are. `times` has the times of the events of each source that tells them.
    """
    if not any(events.values()):
        return
    expiring = [state for state in states if state.ttl_ms is not None]
    lives_from = _bounded(time, times) if expiring else {}
    newest = {name: max(at) for name, at in lives_from.items() if at}
    for function in functions:
        watermark = Watermark(time)
        if not function.inputs:
            _tell(expiring, max(newest.values(), default=None), watermark.time_ms)
            function.call(out)
        for source in function.inputs:
            came = events[source.name]
            if function.is_batch:
                if came:
                    _tell(expiring, newest.get(source.name), watermark.time_ms)
                    function.call(came, out)
                watermark.after(source.name)
            elif expiring:
                at = lives_from.get(source.name)
                before = watermark.before_each(source.name, len(came), times.get(source.name))
                _run_timed(function.call, came, at or [None] * len(came), before, expiring, out)
            else:
                call = function.call
                for first in range(0, len(came), AT_ONCE):
                    for event in came[first : first + AT_ONCE]:
                        call(event, out)
                    out.settle()
    _tell(expiring, None, None)


def _bounded(time: EpochTime, times: Mapping[str, Sequence[int]]) -> Mapping[str, Sequence[int]]:
    """The times from which on what the events write lives: no later than the bound of their source."""
    told = {each.name: each for each in time.sources}
    too_far = {name for name, each in told.items() if each.too_far and name in times}
    return {**times, **{name: [told[name].bounded(at) for at in times[name]] for name in too_far}}


def _tell(states: Sequence[KeyedState], event_ms: int | None, watermark_ms: int | None) -> None:
    for state in states:
        state.at(event_ms, watermark_ms)


def _run_timed(
    call: Callable[..., Any],
    came: Sequence[Any],
    times: Sequence[int | None],
    watermarks: Sequence[int | None],
    states: Sequence[KeyedState],
    out: Emitted,
) -> None:
    """One by one, the states being told the time of each, and the watermark."""
    for first in range(0, len(came), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        for event, event_ms, watermark_ms in zip(came[some], times[some], watermarks[some], strict=True):
            for state in states:
                state.at(event_ms, watermark_ms)
            call(event, out)
        out.settle()
