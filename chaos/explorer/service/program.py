"""The program that the explored service runs: two sources, a state that expires, a kept object, a sink of rows.

The first source tells the time; its events add to a key of the state. Those of the second change the object, so that
there are epochs that change the one, the other, or both. Every row shows what the functions have seen.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from tpc.coordinator.service.functions import Function, Input, KeyedState
from tpc.coordinator.service.program import Program
from tpc.coordinator.service.routes import ServiceWriting
from tpc.coordinator.service.sink_rows import changes_of
from tpc.coordinator.service.state.contents import DiskContents, MemoryContents
from tpc.coordinator.service.state.kept import KeptObject
from tpc.coordinator.service.state.sink import StateSink
from tpc.coordinator.service.state.state import State
from tpc.coordinator.service.state.store import Store
from tpc.source import Source
from tpc.transactional import Transactional, make_transactional

TTL_S = 0.01
SINKS = ("rows", "sums", "model")
SOURCES = ("timed", "other")


class Happened(NamedTuple):
    """An event of a source."""

    source: str
    number: int
    time_ms: int


EVENTS: tuple[tuple[Happened, ...], ...] = (
    tuple(Happened("timed", number, 20 * number) for number in range(3)),
    tuple(Happened("other", number, 0) for number in range(1)),
)


def key_of(event: Happened) -> str:
    """Under which the state counts it: the first and the third share one."""
    return f"k{event.number % 2}"


class Nowhere(StateSink):
    """Describes a sink that nobody opens."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "/nowhere")


_ROWS = ServiceWriting("rows", {"of": str, "n": int, "seen": int, "keys": int}).to(Nowhere("rows"))
_WRITINGS = (_ROWS, changes_of(Nowhere("sums")), changes_of(Nowhere("model")))


def program_of(sources: tuple[Source, Source], stores: tuple[Store, Store], *, is_on_disk: bool) -> Program:
    """The program of one process, with the objects that it keeps in memory."""
    sums = State("sums", DiskContents(stores[0], cached_keys=1) if is_on_disk else MemoryContents(stores[0]), TTL_S)
    model: Transactional[list[int]] = make_transactional([])
    kept = KeptObject(model, stores[1])
    timed, other = Input(sources[0], lambda event: cast(Happened, event).time_ms), Input(sources[1], None)

    def add(event: Happened, out: Any) -> None:
        key = key_of(event)
        sums[key] = sums.get(key, 0) + event.number + 1
        out.row("rows", {"of": event.source, "n": event.number, "seen": sums[key], "keys": len(sums)})

    def learn(event: Happened, out: Any) -> None:
        model.value.append(event.number)
        out.row("rows", {"of": event.source, "n": event.number, "seen": len(model.value), "keys": 0})

    functions = (Function(add, (timed,)), Function(learn, (other,)))
    states: tuple[KeyedState, KeyedState] = (sums, kept)
    return Program((timed, other), functions, states, _WRITINGS, None, unrouted_is_error=False)
