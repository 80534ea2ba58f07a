"""A state that was taken out on the record and comes back begins empty: it has missed every event since."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tests.coordinator.service.test_timers_and_cut import Again
from tpc.coordinator.operations import actions
from tpc.errors import ConfigurationError
from tpc.sinks import FileSink
from tpc.windows import Tumbling

Event = tuple[str, int]
Noted = Callable[[Event, Any], int]


def in_a_state(service: tpc.Service, kind: Any) -> Noted:
    counts: Any = service.state("part", kind)

    def noted(event: Event, out: Any) -> int:
        counts[event[0]] = counts.get(event[0], 0) + 1
        return int(counts[event[0]])

    return noted


def in_an_object(service: tpc.Service, kind: Any) -> Noted:
    kept = service.keep("part", tpc.make_transactional({"n": 0}))

    def noted(event: Event, out: Any) -> int:
        kept.value["n"] += 1
        return kept.value["n"]

    return noted


def in_a_timer(service: tpc.Service, kind: Any) -> Noted:
    timer = service.timer("part", kind, by="event time")

    @timer.fires
    def fired(key: Any, at_ms: int, out: Any) -> None:
        raise AssertionError("what was set before fires")

    def noted(event: Event, out: Any) -> int:
        if timer.pending(event[0]) is not None:
            return 2
        timer.set(event[0], at=10_000)
        return 1

    return noted


KINDS = {"state": in_a_state, "object": in_an_object, "timer": in_a_timer}


class Counted:
    def __init__(self, root: Path, note: Callable[[tpc.Service, Any], Noted], kind: Any) -> None:
        self.root, self.note, self.kind = root, note, kind
        self.events: list[Event] = [("a", 1)]
        self.has_part = True

    def service(self) -> tpc.Service:
        service = tpc.service("counted", directory=self.root / "service")
        events = service.read(Again(lambda: self.events, name="events"), time=lambda event: event[1])
        noted = self.note(service, self.kind) if self.has_part else None

        @service.each(events)
        def came(event: Event, out: Any) -> None:
            out.row("rows", {"at": event[1], "n": noted(event, out) if noted is not None else 0})

        service.write("rows", {"at": int, "n": int}).to(FileSink(self.root / "rows", name="rows"))
        return service

    def run(self) -> None:
        self.service().run(every=1, until_end=True)

    def run_and_again_without(self, *parts: str) -> None:
        """The parts are removed on the record; an event comes while they are gone."""
        self.run()
        actions.remove_sinks(self.service(), parts, "not wanted any more")
        self.has_part = False
        self.events.append(("a", 2))
        self.run()
        self.has_part = True

    def rows(self) -> list[tuple[int, int]]:
        paths = (self.root / "rows").glob("*.parquet")
        return sorted((row["at"], row["n"]) for path in paths for row in pq.read_table(path).to_pylist())


@pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])
@pytest.mark.parametrize("what", KINDS)
def test_what_it_held_is_refused_until_it_is_moved_aside(what: str, kind: Any, tmp_path: Path) -> None:
    counted = Counted(tmp_path, KINDS[what], kind)
    counted.run_and_again_without("part")
    counted.events.append(("a", 3))
    with pytest.raises(ConfigurationError, match="'part' was taken out of the service on the record after epoch 0"):
        counted.run()
    assert counted.rows() == [(1, 1), (2, 0)]
    state = tmp_path / "service" / "state"
    for file in state.glob("part.db*"):
        file.rename(tmp_path / file.name)
    counted.run()
    counted.events.append(("a", 4))
    counted.run()
    assert counted.rows() == [(1, 1), (2, 0), (3, 1), (4, 2)]


def test_windows_that_come_back_open_nothing_of_before(tmp_path: Path) -> None:
    told: list[Any] = []

    def note(service: tpc.Service, kind: Any) -> Noted:
        windows = service.windows(
            "part", Tumbling(1), kind, add=lambda n, _: (n or 0) + 1, result=lambda *result: told.append(result[:3])
        )

        def noted(event: Event, out: Any) -> int:
            windows.add(event[0], None, out, at=event[1])
            return 1

        return noted

    counted = Counted(tmp_path, note, dict)
    counted.run_and_again_without("part-open", "part-close")
    counted.events.append(("a", 30_000))
    with pytest.raises(ConfigurationError, match="taken out of the service on the record"):
        counted.run()
    assert told == []
