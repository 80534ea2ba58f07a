"""The events of one source in one epoch, with what is needed once something refuses one of them.

Nothing here costs anything for each event before that: where an event came from is asked for by its index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tpc.describing import described
from tpc.errors import ConfigurationError
from tpc.source import Origin, Part
from tpc.user_code import clean, is_refusal, name_of, require_done
from tpc.watermark import PartTimes, checked_times

EventTime = Callable[[Any], int]
"""The time of an event, in milliseconds since 1970."""
POSITION_MAX = 1000
"""Characters of a position: one of a source of the user's own may be any text."""


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
        first = [_First.of(part) for part in self._parts]
        return lambda: CutEvents(
            source, [each.again(source, f"between {start} and {end}") for each in first], time, start=start, end=end
        )

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
            answers = list(map(time, events))
            if len(answers) == len(events):  # a StopIteration, out of a `next` without a default, ends them before
                return checked_times(answers, self.source), kept
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
        named = f"partition {part.name}, " if part.name else ""
        at = f"{named}event {index} of the cut between {self._start} and {self._end}"
        return _told(part, index) or Origin(clean(at, POSITION_MAX))


def _told(part: Part, index: int) -> Origin | None:
    """What the source says of where an event was, with a text that every sink takes; None where it says nothing.

    It may be of a source of the user's own: a description never raises, and what is no bytes is left out, and told.
    """
    with suppress(Exception):
        found: object = None if part.origin is None else part.origin(index)
        if isinstance(found, Origin) and isinstance(found.position, str):
            raw: dict[str, object] = {"key": found.key, "value": found.value}
            other = [name for name, each in raw.items() if not isinstance(each, (bytes, type(None)))]
            left_out = f" (its source says a raw {' and '.join(other)} that is no bytes)" if other else ""
            position = clean(found.position, POSITION_MAX) + left_out
            return replace(found, position=position, **dict.fromkeys(other))
    return None


@dataclass(frozen=True)
class _First:
    """A part of a cut as it was first handed out, as far as it can be compared without its events."""

    name: str
    count: int
    origin: Callable[[int], Origin] | None
    give: Callable[[], Part]

    @classmethod
    def of(cls, part: Part) -> _First:
        return cls(part.name, len(part.events), part.origin, part.again or partial(_itself, part))

    def again(self, source: str, where: str) -> Part:
        """The same part. Raises `ConfigurationError` where it is another one: its events would take their place.

        Other events at the same positions do not show where their raw bytes are not told.
        """
        part: object = self.give()
        if not isinstance(part, Part):
            raise self._differs(source, where, f"{described(part, 100)}, which is no tpc.source.Part")
        if (part.name, len(part.events)) != (self.name, self.count):
            what = f"{len(part.events)} events of partition {part.name!r}"
            raise self._differs(source, where, what)
        if part.origin is not self.origin:
            before = Part(self.name, part.events, part.is_ended, origin=self.origin)
            for index in range(self.count):
                if (now := _told(part, index)) != (was := _told(before, index)):
                    raise self._differs(source, where, f"as event {index} {_in_words(now)}, which was {_in_words(was)}")
        return part

    def _differs(self, source: str, where: str, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"Part.again of source {source!r} gives {what}; the cut {where} had {self.count} events of partition "
            f"{self.name!r}",
            source=source,
            remedy="let it give the same events again, or leave it out. Nothing of the epoch is decided.",
        )


def _in_words(origin: Origin | None) -> str:
    return (
        "one without an origin" if origin is None else f"the one at {origin.position} ({described(origin.value, 60)})"
    )
