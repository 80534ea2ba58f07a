"""A service that has ended, however it has, keeps no file open: nothing waits for Python's collector to close it."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.program import STEPS, Die, die
from tests.coordinator.service.test_timers_and_cut import Again
from tpc import failpoints
from tpc.coordinator.operations.actions import status
from tpc.errors import DataError, TpcError
from tpc.sinks import FileSink
from tpc.windows import Tumbling


class Everything:
    """A service with one of each kind of state, two in memory and two on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events = [("abc"[n % 3], 1_000 * n, n) for n in range(60)]
        self.dies_at = -1
        self.has_letters = True

    def service(self) -> tpc.Service:
        service = tpc.service("everything", directory=self.root / "service")
        events = service.read(Again(lambda: self.events, name="events"), time=lambda event: event[1])
        sums, seen = service.state("sums", ttl=tpc.seconds(20)), service.state("seen", "disk")
        timer = service.timer("timer", "disk", by="event time")
        model = service.keep("model", tpc.make_transactional({"n": 0}))

        def result(key: Any, window: Any, value: Any, out: Any) -> None:
            out.row("rows", {"key": key, "n": value})

        windows = service.windows("windows", Tumbling(5), add=lambda has, n: (has or 0) + n, result=result)

        @timer.fires
        def fired(key: Any, at_ms: int, out: Any) -> None:
            out.row("rows", {"key": key, "n": at_ms})

        @service.each(events, timers=[timer, windows])
        def taken(event: tuple[str, int, int], out: Any) -> None:
            key, at_ms, n = event
            if n == self.dies_at:
                raise Die("in a function")
            sums[key] = sums.get(key, 0) + n
            seen[key] = seen.get(key, 0) + 1
            model.value["n"] += n
            timer.set(key, at=at_ms + 3_000)
            windows.add(key, n, out, at=at_ms)

        service.write("rows", {"key": str, "n": int}).to(FileSink(self.root / "rows", name="rows"))
        if self.has_letters:
            service.dead_letters_to(FileSink(self.root / "dead", name="dead"))
        return service

    def run(self) -> None:
        self.service().run(every=20, until_end=True)


@pytest.fixture
def everything(tmp_path: Path) -> Iterator[Everything]:
    """Python's collector does not help."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield Everything(tmp_path)
    finally:
        failpoints.install({})
        if was_enabled:
            gc.enable()


def open_below(root: Path) -> list[str]:
    """The files of this process that lie below `root`."""
    found = []
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208  a name in it may be gone when it is read
        with suppress(FileNotFoundError):
            found.append(Path(f"/proc/self/fd/{number}").readlink())
    return sorted(str(place) for place in found if place.is_relative_to(root))


def test_one_that_has_come_to_its_end(everything: Everything) -> None:
    everything.run()
    everything.run()
    assert open_below(everything.root) == []


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_one_that_a_raised_error_has_ended_at_a_step(everything: Everything, step: str) -> None:
    everything.run()
    everything.events += [("d", 100_000 + n, n) for n in range(5)]
    failpoints.install({step: die})
    with pytest.raises(BaseException, match=step):
        everything.run()
    assert open_below(everything.root) == []


def test_one_that_a_function_has_ended(everything: Everything) -> None:
    everything.dies_at, everything.has_letters = 30, False
    with pytest.raises(DataError, match="in a function"):
        everything.run()
    assert open_below(everything.root) == []


def test_one_that_is_refused_at_its_start(everything: Everything) -> None:
    everything.run()
    service = tpc.service("other", directory=everything.root / "service")
    service.read(Again(lambda: everything.events, name="events"))
    service.state("sums")
    with pytest.raises(TpcError):
        service.run(until_end=True)
    assert open_below(everything.root) == []


def test_one_that_has_only_been_looked_at(everything: Everything) -> None:
    everything.run()
    service = everything.service()
    service.columns()
    assert status(service.log, service.checkpoint)["last_complete"] == 2
    assert open_below(everything.root) == []
