"""A source of the explored service. Its reader keeps the promises of `tpc.source`, but for what was compacted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tpc.chaos.explorer.service.program import EVENTS, SOURCES
from tpc.errors import StateLostError
from tpc.source import Part, Source, SourceReader


class Held(NamedTuple):
    """What a source still has: nothing before `first`, and not the event `compacted`; which of its name it is."""

    first: int = 0
    compacted: int | None = None
    made: int = 0

    @property
    def is_damaged(self) -> bool:
        """Whether it has lost anything."""
        return self._replace(made=0) != Held()


class ModelSource(Source):
    """The source of that number. `polled` tells how many events of it come before the next cut."""

    start_varies = False

    def __init__(self, number: int, held: Held, polled: Callable[[int], int]) -> None:
        super().__init__(SOURCES[number])
        self.number = number
        self.held = held
        self.polled = polled

    def reader(self) -> SourceReader:
        """See `Source`."""
        return _Reader(self)


@dataclass
class _Reader(SourceReader):
    source: ModelSource
    at: int = 0
    polled: int = 0

    def seek(self, position: str | None) -> None:
        self.at, self.polled = int(position or 0), 0
        if self.at < self.source.held.first:
            raise StateLostError(f"{self.source.name} has nothing before {self.source.held.first}")

    def identities(self) -> Mapping[str, str]:
        return {"events": str(self.source.held.made)}

    def position(self) -> str:
        return str(self.at)

    def poll(self, rows: int, timeout_s: float) -> int:
        wanted = self.source.polled(self.source.number) - self.polled
        came = max(0, min(rows, wanted, len(EVENTS[self.source.number]) - self.at - self.polled))
        self.polled += came
        return came

    def cut(self) -> list[Part]:
        return self.read_to(str(self.at + self.polled), 0.0)

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        events = EVENTS[self.source.number]
        read = [event for event in events[self.at : int(end)] if event.number != self.source.held.compacted]
        self.at, self.polled = int(end), 0
        return [Part("", read, self.at == len(events))]

    def is_exhausted(self) -> bool:
        return self.at + self.polled == len(EVENTS[self.source.number])

    def close(self) -> None:
        pass
