"""What windows do, as a model: all values of a window in a list, one event after the other, no epochs.

The program of the tests is here twice: `Model` runs it as the rules say it, `declare` says it to a service. Each row
has a number of its own, so that equal rows are equal orders of all events and results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import tpc
from tpc.sinks import FileSink
from tpc.source import Source
from tpc.windows import Hopping, Session, Tumbling

SIZE_MS, EVERY_MS, GAP_MS = 100, 40, 60
KINDS = ("tumbling", "hopping", "session")


class Event(NamedTuple):
    """A value of a key at a time; its time in the window may be another than that which moves the watermark."""

    key: str
    time_ms: int
    value: int = 1
    is_refused: bool = False


class Case(NamedTuple):
    """Which windows, and how they are told."""

    kind: str
    lateness_ms: int = 0
    updates: bool = False


class RefusedError(ValueError):
    """What an event is refused with."""


@dataclass
class Open:
    """A window that is open: the values in it, in the order in which they came or were joined."""

    start_ms: int
    end_ms: int
    values: list[int] = field(default_factory=list)
    told: int = 0
    """How many results it has had."""
    has_ended: bool = False


@dataclass
class Model:
    """One event after the other. `rows` are all that come of it."""

    case: Case
    rows: list[str] = field(default_factory=list)
    open: dict[str, list[Open]] = field(default_factory=dict)
    watermark_ms: int | None = None
    late: int = 0

    def run(self, events: Sequence[Event]) -> None:
        """Each of them; between two all that is over."""
        for event in events:
            if not event.is_refused:
                self.row(f"event {event.key} {event.time_ms}")
                for start, end in self.bounds(event.time_ms):
                    self.add(event, start, end)
            self.watermark_ms = max([event.time_ms, *([] if self.watermark_ms is None else [self.watermark_ms])])
            self.close()

    def bounds(self, time_ms: int) -> list[tuple[int, int]]:
        if self.case.kind == "session":
            return [(time_ms, time_ms + GAP_MS)]
        step = SIZE_MS if self.case.kind == "tumbling" else EVERY_MS
        starts = [start for start in range(-4 * SIZE_MS, time_ms + 1) if start % step == 0]
        return [(start, start + SIZE_MS) for start in starts if start <= time_ms < start + SIZE_MS]

    def add(self, event: Event, start: int, end: int) -> None:
        held = self.open.setdefault(event.key, [])
        if self.case.kind == "session":
            mine = [each for each in held if each.start_ms < end and start < each.end_ms]
        else:
            mine = [each for each in held if each.start_ms == start]
        both = Open(min([start, *(m.start_ms for m in mine)]), max([end, *(m.end_ms for m in mine)]))
        if self.reached(both.end_ms + self.case.lateness_ms):
            self.late += 1
            self.row(f"late {event.key} {event.value} {both.start_ms} {both.end_ms}")
            return
        for each in sorted(mine, key=lambda each: each.start_ms):
            both.values += each.values
            both.told, both.has_ended = each.told, each.has_ended
            held.remove(each)
        both.values.append(event.value)
        held.append(both)
        if self.case.updates and self.reached(both.end_ms):
            both.has_ended = True
            self.tell(event.key, both, is_final=False)

    def reached(self, time_ms: int) -> bool:
        return self.watermark_ms is not None and time_ms <= self.watermark_ms

    def close(self) -> None:
        """What has ended, and what is over, in the order of (time, key, start)."""
        while True:
            waiting = [
                (self.next_ms(each), key, each.start_ms, each) for key, held in self.open.items() for each in held
            ]
            due = [each for each in waiting if self.reached(each[0])]
            if not due:
                return
            at_ms, key, _, one = min(due, key=lambda each: each[:3])
            if at_ms < one.end_ms + self.case.lateness_ms:
                one.has_ended = True
                self.tell(key, one, is_final=False)
            else:
                self.open[key].remove(one)
                self.tell(key, one, is_final=True)

    def next_ms(self, one: Open) -> int:
        over_ms = one.end_ms + self.case.lateness_ms
        return one.end_ms if self.case.updates and not one.has_ended else over_ms

    def tell(self, key: str, one: Open, *, is_final: bool) -> None:
        self.row(f"result {key} {one.start_ms} {one.end_ms} {one.told} {is_final} {one.values}")
        one.told += 1

    def row(self, text: str) -> None:
        self.rows.append(f"{len(self.rows)} {text}")


def shape(kind: str) -> Any:
    return {
        "tumbling": Tumbling(SIZE_MS / 1000),
        "hopping": Hopping(SIZE_MS / 1000, EVERY_MS / 1000),
        "session": Session(GAP_MS / 1000),
    }[kind]


def declare(directory: Path, source: Source, case: Case, kind: Any = dict) -> tpc.Service:
    """The same as a service, whose rows go to files in `directory`. Its accumulators are changed in place."""
    service = tpc.service("windowed", directory=directory / "service")
    events = service.read(source, time=lambda event: event.time_ms)
    counted: Any = service.state("counted", kind)

    def row(text: str, out: Any) -> None:
        counted["rows"] = counted.get("rows", 0) + 1
        out.row("rows", {"row": f"{counted['rows'] - 1} {text}"})

    def add(values: Any, value: Any) -> Any:
        if values is None:
            return value  # the same object in all windows of the event
        values += value
        return values

    def result(key: str, window: Any, values: Any, out: Any) -> None:
        row(f"result {key} {window.start_ms} {window.end_ms} {window.revision} {window.is_final} {values}", out)
        values.append(-1)  # what is told belongs to whoever is told it

    def late(key: str, value: Any, window: Any, out: Any) -> None:
        row(f"late {key} {value[0]} {window.start_ms} {window.end_ms}", out)

    windows = service.windows(
        "sums",
        shape(case.kind),
        kind,
        add=add,
        result=result,
        merge=add if case.kind == "session" else None,
        late=late,
        lateness=tpc.seconds(case.lateness_ms / 1000),
        updates=case.updates,
    )

    @service.each(events, timers=[windows])
    def taken(event: Event, out: Any) -> None:
        row(f"event {event.key} {event.time_ms}", out)
        windows.add(event.key, [event.value], out, at=event.time_ms)
        if event.is_refused:
            raise RefusedError(event.key)

    service.write("rows", {"row": str}).to(FileSink(directory / "rows", name="rows"))
    service.dead_letters_to(FileSink(directory / "dead", name="dead"), max_share=1.0)
    return service
