"""What timers and `on_expiry` do, as a model: pending times in a dictionary, one event after the other, no epochs.

The program of the tests is here twice: `Model` runs it as the rules say it, `declare` says it to a service. Each row
has a number of its own, so that equal rows are equal orders of all events and firings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import tpc
from tpc.sinks import FileSink
from tpc.source import Source

TTL_MS = 200
KEYS = "abxy"


class Event(NamedTuple):
    """It does something to a key when it happens, and may be refused then."""

    does: str
    key: str
    time_ms: int
    by_ms: int = 100
    is_refused: bool = False


DOES = ("after", "at", "after the other", "cancel", "cancel the other", "write", "delete", "clear", "look", "nothing")


class RefusedError(ValueError):
    """What an event is refused with."""


class Hands(NamedTuple):
    """What the program does anything with, of the model and of a service."""

    set: Callable[[str, str, int], object]
    set_after: Callable[[str, str, int], object]
    cancel: Callable[[str, str], object]
    pending: Callable[[str, str], int | None]
    write: Callable[[str, int], object]
    delete: Callable[[str], object]
    clear: Callable[[], object]
    row: Callable[[str], None]


def taken(event: Event, hands: Hands) -> None:
    """What the function of events does."""
    key, name = event.key, "one" if "other" not in event.does else "other"
    if event.does.startswith("after"):
        hands.set_after(name, key, event.by_ms)
    elif event.does == "at":
        hands.set(name, key, event.time_ms + event.by_ms)
    elif event.does.startswith("cancel"):
        hands.cancel(name, key)
    elif event.does == "write":
        hands.write(key, event.by_ms)
    elif event.does == "delete":
        hands.delete(key)
    elif event.does == "clear":
        hands.clear()
    seen = [hands.pending(name, key) for name in ("one", "other") for key in KEYS] if event.does == "look" else []
    hands.row(f"event {event} {seen}")
    if event.is_refused:
        raise RefusedError(event.key)


def told(name: str, key: str, at_ms: int, hands: Hands) -> None:
    """What the functions of the timers do: some set what is due at once, of an earlier time, too, some one another."""
    hands.row(f"{name} {key} {at_ms} {hands.pending(name, key)}")
    if name == "one":
        if key == "x":
            hands.set("other", "a", at_ms - 50)
            hands.set("other", "y", at_ms)
        elif key == "y" and at_ms < 600:
            hands.set_after("one", "y", 30)
        else:
            hands.cancel("other", key)
            hands.write(key, 7)
    elif key == "b":
        hands.set("one", "x", at_ms + 10)


def ended(key: str, value: Any, at_ms: int, hands: Hands) -> None:
    """What `on_expiry` does."""
    hands.row(f"ended {key} {value} {at_ms}")
    if key == "a":
        hands.write("b", 8)
        hands.set_after("other", "a", 40)
    elif key == "x":
        hands.cancel("one", "x")


@dataclass
class Model:
    """One event after the other. `rows` are all that come of it."""

    rows: list[str] = field(default_factory=list)
    pending: dict[tuple[str, str], int] = field(default_factory=dict)
    held: dict[str, tuple[Any, int]] = field(default_factory=dict)
    now_ms: int = 0
    watermark_ms: int | None = None

    def run(self, events: Sequence[Event]) -> None:
        """Each of them; between two all that is due."""
        for event in events:
            before = list(self.rows), dict(self.pending), dict(self.held)
            self.now_ms = event.time_ms
            try:
                taken(event, self.hands())
            except RefusedError:
                self.rows, self.pending, self.held = before
            self.watermark_ms = max(event.time_ms, self.watermark_ms or 0)
            self.fire()

    def fire(self) -> None:
        """All that is due, the earliest first."""
        while due := self.due():
            at_ms, name, key = min(due)
            self.now_ms = at_ms
            if name == "held":
                value, _ = self.held.pop(key)
                ended(key, value, at_ms, self.hands())
            else:
                del self.pending[name, key]
                told(name, key, at_ms, self.hands())

    def due(self) -> list[tuple[int, str, str]]:
        assert self.watermark_ms is not None
        timers = [(at_ms, name, key) for (name, key), at_ms in self.pending.items()]
        ends = [(at_ms, "held", key) for key, (_, at_ms) in self.held.items()]
        return [each for each in timers + ends if each[0] <= self.watermark_ms]

    def write(self, key: str, value: int) -> None:
        ends_ms = self.now_ms + TTL_MS
        self.held[key] = ([value], max(ends_ms, self.held[key][1]) if key in self.held else ends_ms)

    def hands(self) -> Hands:
        return Hands(
            lambda name, key, at_ms: self.pending.__setitem__((name, key), at_ms),
            lambda name, key, by_ms: self.pending.__setitem__((name, key), self.now_ms + by_ms),
            lambda name, key: self.pending.pop((name, key), None),
            lambda name, key: self.pending.get((name, key)),
            self.write,
            lambda key: self.held.pop(key, None),
            self.held.clear,
            lambda text: self.rows.append(f"{len(self.rows)} {text}"),
        )


def declare(directory: Path, source: Source, kind: Any, *, has_letters: bool = False, **options: Any) -> tpc.Service:
    """The same as a service; its rows go to files in `directory`."""
    service = tpc.service("timed", directory=directory / "service")
    events = service.read(source, time=lambda event: event.time_ms)
    timers = {name: service.timer(name, kind, by="event time", **options) for name in ("one", "other")}
    counted: Any = service.state("counted", kind)

    def hands(out: Any) -> Hands:
        def row(text: str) -> None:
            counted["rows"] = counted.get("rows", 0) + 1
            out.row("rows", {"row": f"{counted['rows'] - 1} {text}"})

        return Hands(
            lambda name, key, at_ms: timers[name].set(key, at=at_ms),
            lambda name, key, by_ms: timers[name].set(key, after=tpc.seconds(by_ms / 1000)),
            lambda name, key: timers[name].cancel(key),
            lambda name, key: timers[name].pending(key),
            lambda key, value: held.__setitem__(key, [value]),
            lambda key: held.pop(key, None),
            held.clear,
            row,
        )

    held: Any = service.state(
        "held",
        kind,
        ttl=tpc.seconds(TTL_MS / 1000),
        on_expiry=lambda key, value, at_ms, out: ended(key, value, at_ms, hands(out)),
        **options,
    )
    service.each(events)(lambda event, out: taken(event, hands(out)))
    timers["one"].fires(lambda key, at_ms, out: told("one", key, at_ms, hands(out)))
    timers["other"].fires(lambda key, at_ms, out: told("other", key, at_ms, hands(out)))
    service.write("rows", {"row": str}).to(FileSink(directory / "rows", name="rows"))
    if has_letters:
        service.dead_letters_to(FileSink(directory / "dead", name="dead"), max_share=1.0)
    return service
