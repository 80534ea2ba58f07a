"""A service of the tests in which each event sets a timer, and the clock that its processes read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tests.coordinator.service.test_timers_and_cut import Again
from tests.coordinator.service.test_times_of_a_service import manifests
from tpc import failpoints
from tpc.changelog import Changelog
from tpc.sinks import FileSink

Event = tuple[str, int]
each_kind = pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])


class Clock:
    """That on the wall, as the processes of a test read it."""

    def __init__(self, now_s: float = 1_000.0) -> None:
        self.now_s = now_s
        self.reads = 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now_s


class Timeouts:
    """Each event sets the timer of its key; a row for each event and each firing."""

    def __init__(self, directory: Path, by: str = "event time", kind: Any = dict) -> None:
        self.directory, self.by, self.kind = directory, by, kind
        self.events: list[Any] = []
        self.does: Callable[[Any, Any, Any], object] = lambda timer, event, out: timer.set(
            event[0], after=tpc.seconds(0.3)
        )
        self.told: Callable[[Any, int, Any], object] = lambda key, at_ms, out: None
        self.name = "timeouts"
        self.place = "service"
        """Its directory, below that of the test."""
        self.changelog: Changelog | None = None
        self.is_timed = True
        self.has_letters = False
        self.timer: Any = None
        self.functions: list[Callable[[Any], object]] = []
        """Called with each service before it runs."""

    def service(self) -> tpc.Service:
        service = tpc.service(self.name, directory=self.directory / self.place)
        source = Again(lambda: self.events, name="events")
        came = service.read(source, time=(lambda event: event[1]) if self.is_timed else None)
        timer = self.timer = service.timer("timeout", self.kind, by=self.by, changelog=self.changelog)  # type: ignore[arg-type]

        @service.each(came)
        def taken(event: Event, out: Any) -> None:
            self.does(timer, event, out)
            out.row("rows", {"key": str(event[0]), "what": "came", "at": event[1]})

        @timer.fires
        def told(key: Any, at_ms: int, out: Any) -> None:
            self.told(key, at_ms, out)
            out.row("rows", {"key": str(key), "what": "fired", "at": at_ms})

        service.write("rows", {"key": str, "what": str, "at": int}).to(FileSink(self.directory / "rows", name="rows"))
        if self.has_letters:
            service.dead_letters_to(FileSink(self.directory / "dead", name="dead"), max_share=1.0)
        for function in self.functions:
            function(service)
        return service

    def run(self, every: int = 1, **actions: failpoints.Action) -> None:
        failpoints.install({name.replace("_", "."): action for name, action in actions.items()})
        try:
            self.service().run(every=every, until_end=True)
        finally:
            failpoints.install({})

    def rows(self, what: str, place: str = "rows") -> list[Any]:
        paths = (self.directory / place).glob("*.parquet")
        rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
        return sorted((row["key"], row["at"]) for row in rows if row["what"] == what)

    def epochs(self) -> int:
        return len(manifests(self.directory))
