"""The events of one source in one epoch, with what is needed once something refuses one of them.

Nothing here costs anything for each event before that: where an event came from is asked for by its index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from tpc.errors import ConfigurationError
from tpc.event_time import PartTimes, checked_times
from tpc.source import Origin, Part
from tpc.user_code import is_refusal, name_of, require_done

EventTime = Callable[[Any], int]
"""The time of an event, in milliseconds since 1970."""


def _itself(part: Part) -> Part:
    return part


@dataclass(frozen=True)
class Refusal:
    """One event that `function`, or a sink, has refused, by raising `error`."""

    source: str
    origin: Origin
    function: str
    error: Exception
    sink: str | None = None
    """The sink that refuses a row of what the function made of the event."""


class CutEvents(list[Any]):
    """The events that functions are given, one partition after the other.

    `times` are their times, where the source has some. `refused` are those that are not among them: `decode` or the
    time function has refused them, so that they have no time and move no watermark. `parts` are those of the cut, made
    between the positions `start` and `end`.
    """

    def __init__(
        self,
        source: str,
        parts: Sequence[Part] = (),
        time: EventTime | None = None,
        *,
        start: str = "",
        end: str = "",
    ) -> None:
        super().__init__()
        self.source = source
        self.times: list[int] | None = None if time is None else []
        self.refused: list[Refusal] = []
        self.timed: list[PartTimes] = []
        """The same by partition, as a source's clock takes them."""
        self._parts = parts
        self._kept: list[Sequence[int]] = []
        """Of each part the indices of the events that are among these."""
        self._time, self._start, self._end = time, start, end
        for part in parts:
            self._take(part)

    @property
    def came(self) -> int:
        """How many events there were, refused ones among them."""
        return len(self) + len(self.refused)

    @property
    def is_fresh_again(self) -> bool:
        """Whether `again` gives objects that no function can have changed."""
        return all(part.again is not None for part in self._parts if part.events)

    def again(self) -> CutEvents:
        """The same events, decoded once more where the source can."""
        return self.remembered()()

    def remembered(self) -> Callable[[], CutEvents]:
        """What gives the same events once more, and holds none of them meanwhile that the source can decode again."""
        source, time, start, end = self.source, self._time, self._start, self._end
        told = [(part.name, len(part.events), part.again or partial(_itself, part)) for part in self._parts]

        def give() -> CutEvents:
            parts = [again() for _, _, again in told]
            for part, (name, count, _) in zip(parts, told, strict=True):
                if (part.name, len(part.events)) != (name, count):
                    raise ConfigurationError(
                        f"Part.again of source {source!r} gives {len(part.events)} events of {part.name}, and the cut "
                        f"between {start} and {end} had {count} of {name}",
                        remedy="let it give the same events again, or leave it out. Nothing of the epoch is decided.",
                    )
            return CutEvents(source, parts, time, start=start, end=end)

        return give

    def origin(self, index: int) -> Origin:
        """Where the event of this index came from. It never raises."""
        for part, kept in zip(self._parts, self._kept, strict=True):
            if index < len(kept):
                return self._origin(part, kept[index])
            index -= len(kept)
        return Origin("unknown")

    def range(self) -> str:
        """From where to where these events came."""
        if not self:
            return f"between {self._start} and {self._end}"
        first, last = self.origin(0).position, self.origin(len(self) - 1).position
        return first if first == last else f"{first} to {last}"

    def _take(self, part: Part) -> None:
        kept: Sequence[int] = range(len(part.events))
        if part.refused:
            kept = [index for index in kept if index not in part.refused]
            for index in sorted(part.refused):
                self._refuse(part, index, "decode", part.refused[index])
        if self._time is not None and self.times is not None:
            times, kept = self._times(part, kept, self._time)
            self.times += times
            self.timed.append(PartTimes(part.name, times, part.is_ended))
        self._kept.append(kept)
        self += part.events if len(kept) == len(part.events) else [part.events[index] for index in kept]

    def _times(self, part: Part, kept: Sequence[int], time: EventTime) -> tuple[Sequence[int], Sequence[int]]:
        events = part.events if len(kept) == len(part.events) else [part.events[index] for index in kept]
        with suppress(Exception):  # one by one it shows which it was
            return checked_times(list(map(time, events)), self.source), kept
        times, timed = list[int](), list[int]()
        for index in kept:
            try:
                times += checked_times([self._answer(time, part.events[index])], self.source)
                timed.append(index)
            except Exception as error:
                if not is_refusal(error):
                    raise
                self._refuse(part, index, f"time= ({name_of(time)})", error)
        return times, timed

    @staticmethod
    def _answer(time: EventTime, event: Any) -> int:
        require_done(answer := time(event), f"time= ({name_of(time)})")
        return answer

    def _refuse(self, part: Part, index: int, function: str, error: Exception) -> None:
        self.refused.append(Refusal(self.source, self._origin(part, index), function, error))

    def _origin(self, part: Part, index: int) -> Origin:
        with suppress(Exception):  # a description never raises
            if part.origin is not None:
                return part.origin(index)
        named = f"partition {part.name}, " if part.name else ""
        return Origin(f"{named}event {index} of the cut between {self._start} and {self._end}")
