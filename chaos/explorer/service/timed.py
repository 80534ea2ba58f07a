"""The same service with a timer: what it runs then, and what its epochs come to, computed plainly.

The state tells what expires, by event time; a timer by the clock takes the place of the kept object. Functions set,
cancel and ask it, and so do its firings, which read the state. Every row shows what a firing has seen.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from tpc.chaos.explorer.service.program import EVENTS, TTL_S, Happened, Nowhere, key_of
from tpc.coordinator.service.functions import Function, Input
from tpc.coordinator.service.program import Program
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.sink_rows import changes_of
from tpc.coordinator.service.state.contents import DiskContents, MemoryContents
from tpc.coordinator.service.state.due import CLOCK
from tpc.coordinator.service.state.state import State
from tpc.coordinator.service.state.store import Store
from tpc.coordinator.service.state.timer import Timer
from tpc.source import Source

TIMED_SINKS = ("rows", "sums", "wake")
CLOCK_MS = (0, 10, 30)
"""What a clock may show when an epoch is cut, in any order: it goes back, and jumps."""
_AFTER_MS = 10
_ROWS = ServiceWriting("rows", {"of": str, "n": int, "seen": int, "keys": int}).to(Nowhere("rows"))
_WRITINGS = (_ROWS, changes_of(Nowhere("sums")), changes_of(Nowhere("wake")))
Row = tuple[str, int, int, int]


def timed_program_of(sources: tuple[Source, Source], stores: tuple[Store, Store], *, is_on_disk: bool) -> Program:
    """The program of one process, with the objects that it keeps in memory."""
    contents = [DiskContents(each, cached_keys=1) if is_on_disk else MemoryContents(each) for each in stores]
    sums, wake = State("sums", contents[0], TTL_S), Timer("wake", CLOCK, contents[1])
    timed, other = Input(sources[0], lambda event: cast(Happened, event).time_ms), Input(sources[1], None)

    def add(event: Happened, out: Any) -> None:
        key = key_of(event)
        sums[key] = sums.get(key, 0) + event.number + 1
        wake.set(key, after=_AFTER_MS / 1000)
        out.row("rows", {"of": event.source, "n": event.number, "seen": sums[key], "keys": len(sums)})

    def learn(event: Happened, out: Any) -> None:
        wake.cancel("k0")
        out.row("rows", {"of": event.source, "n": event.number, "seen": wake.pending("k1") or 0, "keys": 0})

    def woken(key: str, at_ms: int, out: Any) -> None:
        if key == "k0":
            wake.set("again", after=_AFTER_MS / 1000)
        out.row("rows", {"of": f"woken {key}", "n": at_ms, "seen": sums.get(key, 0), "keys": len(sums)})

    def ended(key: str, value: int, at_ms: int, out: Any) -> None:
        if key == "k1":
            wake.set(key, after=0.0)
        out.row("rows", {"of": f"ended {key}", "n": at_ms, "seen": value, "keys": len(sums)})

    sums.on_expiry = ended
    wake.fires(woken)
    functions = (Function(add, (timed,)), Function(learn, (other,)))
    return Program(
        (timed, other), functions, (sums, wake), _WRITINGS, None, unrouted_is_error=False, timed=(sums, wake)
    )


# What the epochs come to, without any of the code above ---------------------------------------------------------------


class Kept(NamedTuple):
    """What the state and the timer hold: sums with their ends, and when each key is due."""

    sums: dict[str, tuple[int, int]]
    wake: dict[str, int]


def watermark_of(events: int) -> int | None:
    """To where so many events of the source that tells the time have brought it."""
    return max((event.time_ms for event in EVENTS[0][:events]), default=None)


def due_in(kept: Kept, watermark_ms: int | None, now_ms: int) -> list[tuple[int, str, str]]:
    """What fires at this watermark and this time of the clock: time, name, key; in their order."""
    ended = [
        (end, "sums", key) for key, (_, end) in kept.sums.items() if watermark_ms is not None and end <= watermark_ms
    ]
    return sorted([*ended, *((at, "wake", key) for key, at in kept.wake.items() if at <= now_ms)])


def timed_epoch(before: Kept, starts: tuple[int, int], ends: tuple[int, int], now_ms: int) -> tuple[list[Row], Kept]:
    """The rows of one epoch, and what is held after it."""
    kept, rows = Kept(dict(before.sums), dict(before.wake)), list[Row]()
    for number in range(starts[0], ends[0]):
        _fire(kept, watermark_of(number), now_ms, rows)
        event = EVENTS[0][number]
        key = key_of(event)
        total, end = kept.sums.get(key, (0, event.time_ms))
        total += event.number + 1
        kept.sums[key] = total, max(end, event.time_ms + round(TTL_S * 1000))
        kept.wake[key] = now_ms + _AFTER_MS
        rows.append((event.source, event.number, total, len(kept.sums)))
    for event in EVENTS[1][starts[1] : ends[1]]:
        _fire(kept, watermark_of(ends[0]), now_ms, rows)
        kept.wake.pop("k0", None)
        rows.append((event.source, event.number, kept.wake.get("k1", 0), 0))
    _fire(kept, watermark_of(ends[0]), now_ms, rows)
    return rows, kept


def _fire(kept: Kept, watermark_ms: int | None, now_ms: int, rows: list[Row]) -> None:
    while due := due_in(kept, watermark_ms, now_ms):
        at_ms, name, key = due[0]
        if name == "sums":
            total, _ = kept.sums.pop(key)
            if key == "k1":
                kept.wake[key] = now_ms
            rows.append((f"ended {key}", at_ms, total, len(kept.sums)))
        else:
            del kept.wake[key]
            if key == "k0":
                kept.wake["again"] = now_ms + _AFTER_MS
            total, _ = kept.sums.get(key, (0, 0))
            rows.append((f"woken {key}", at_ms, total, len(kept.sums)))
