"""An epoch has bounds of events, bytes and time at once, none of which shows in what is written; a stop ends it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpc
from tests.coordinator.service.program import Die, die
from tpc import failpoints
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.stop_request import StopRequest
from tpc.coordinator.service import epoch_cancellation, running
from tpc.coordinator.service.cutting import Cutter
from tpc.coordinator.service.epoch_size import FIRST_EVENTS, EpochSize, size_of
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.functions import Input
from tpc.errors import ConfigurationError
from tpc.sinks import FileSink
from tpc.source import Source, SourceReader
from tpc.sources import IterableSource, LinesSource


def never() -> bool:
    return False


def cuts_of(every: EpochTrigger, *sources: Source) -> list[list[Any]]:
    """The events of each epoch of a run to the end."""
    cutter = Cutter([Input(source, None) for source in sources], every)
    cutter.seek([])
    made = []
    while (cut := cutter.next(never, lambda: None, until_end=True)) is not None:
        made.append([event for events in cut.take().values() for event in events])
    return made


# Bytes -------------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(st.integers(0, 300), max_size=60), most=st.integers(1, 1000), events=st.integers(1, 50))
def test_lines_make_no_epoch_of_more_bytes_than_the_bound_and_one_line(
    lengths: list[int], most: int, events: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "lines"
    lines = [str(number % 10) * length for number, length in enumerate(lengths)]
    path.write_text("".join(f"{line}\n" for line in lines))
    for every in (EpochTrigger(events=events, bytes=most), EpochTrigger(seconds=0.0, events=events, bytes=most)):
        cuts = cuts_of(every, LinesSource(path))
        assert [line for cut in cuts for line in cut] == lines
        assert all(len(cut) <= events for cut in cuts)
        assert all(sum(len(line) + 1 for line in cut[:-1]) < most for cut in cuts)


def test_events_whose_source_does_not_know_their_size_are_bounded_by_that_of_those_before() -> None:
    cuts = cuts_of(EpochTrigger(seconds=0.0, bytes=100_000), IterableSource([{"text": "x" * 10_000}] * 300))
    assert sum(map(len, cuts)) == 300
    assert len(cuts[0]) <= FIRST_EVENTS
    assert all(len(cut) <= 10 for cut in cuts[1:])


def test_sources_share_the_bytes_of_an_epoch_and_each_gets_its_turn(tmp_path: Path) -> None:
    for name, letter in (("a", "a"), ("b", "b")):
        (tmp_path / name).write_text(f"{letter * 99}\n" * 50)
    cuts = cuts_of(EpochTrigger(events=1000, bytes=1000), LinesSource(tmp_path / "a"), LinesSource(tmp_path / "b"))
    assert sum(map(len, cuts)) == 100
    assert all(len(cut) <= 11 for cut in cuts)
    assert {line[0] for cut in cuts[:2] for line in cut} == {"a", "b"}


class Huge(LinesSource):
    """Can be read while an epoch is committed; how often it was asked otherwise."""

    asked = 0

    def reader(self) -> SourceReader:
        made = super().reader()
        made.reads_ahead = True
        poll = made.poll

        def counted(rows: int, timeout_s: float) -> int:
            self.asked += 1
            return poll(rows, timeout_s)

        made.poll, made.poll_ahead = counted, lambda rows: poll(rows, 0.0)  # type: ignore[method-assign]
        return made


def test_reading_ahead_keeps_to_the_bound_and_leaves_each_source_its_own_turn(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("x" * 99 + "\n")
    source = Huge(tmp_path / "lines")
    source.path.write_text(("x" * 99 + "\n") * 100)
    cutter = Cutter([Input(source, None)], EpochTrigger(seconds=0.0, bytes=1000))
    cutter.seek([])
    for epoch in range(1, 5):
        cutter.read_ahead(never)
        cut = cutter.next(never, lambda: None, until_end=True)
        assert cut is not None
        assert 10 <= cut.came <= 11
        assert source.asked >= epoch


def shaped() -> st.SearchStrategy[Any]:
    return st.recursive(st.none() | st.integers() | st.text() | st.binary(), lambda inner: st.lists(inner, max_size=5))


@given(shaped())
def test_any_event_has_a_size(event: Any) -> None:
    assert size_of(event) > 0


def test_a_size_counts_what_is_within_an_event_and_never_raises() -> None:
    class Odd:
        def __sizeof__(self) -> int:
            raise ValueError

    circle: list[Any] = []
    circle.append(circle)
    assert size_of({"a": [b"x" * 1000] * 1}) > 1000
    assert size_of([["x" * 100] for _ in range(10_000)]) > 1_000_000
    assert size_of(Odd()) > 0
    assert size_of(circle) > 0


# Seconds -----------------------------------------------------------------------------------------------------------


def test_the_next_epoch_has_as_many_events_as_are_computed_in_a_second() -> None:
    size = EpochSize(EpochTrigger(seconds=0.05))
    assert size.events == FIRST_EVENTS
    size.took(100, 1.0)
    assert size.events == 100
    size.took(100, 20.0)
    assert size.events == 5
    size.took(5, 50.0)
    assert size.events == 1


@pytest.mark.parametrize(("fixed_s", "event_s"), [(1.3, 0.0), (1.05, 0.0), (5.0, 0.001), (1.2, 0.01), (0.0, 0.2)])
def test_a_part_of_the_time_that_every_epoch_takes_makes_epochs_no_smaller(fixed_s: float, event_s: float) -> None:
    size = EpochSize(EpochTrigger(seconds=0.05))
    for _ in range(60):
        size.took(size.events, fixed_s + size.events * event_s)
    events_s = size.events * event_s
    assert events_s <= 2 * max(fixed_s, 1.0), "a stop would wait long"
    assert size.events == 100_000 or events_s >= 0.5 * fixed_s, "most of the time is spent on what is the same for all"


def test_it_grows_with_what_was_tried_and_up_to_the_bound_of_events() -> None:
    size = EpochSize(EpochTrigger(seconds=0.05, events=50_000))
    grown = []
    for _ in range(4):
        size.took(size.events, 0.001)
        grown.append(size.events)
    assert grown == [1_000, 10_000, 50_000, 50_000]
    size.took(1, 0.000_001)  # of one event little follows
    assert size.events == 1_000


def test_who_wants_long_epochs_gets_them_and_who_counts_events_gets_these() -> None:
    long, counted = EpochSize(EpochTrigger(seconds=60.0)), EpochSize(EpochTrigger(events=500))
    for size in (long, counted):
        size.took(100, 20.0)
    assert (long.events, counted.events) == (300, 500)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0.0, 10**6)), max_size=30), st.integers(1, 10**5))
def test_whatever_it_took_an_epoch_has_an_event_and_no_more_than_the_bound(
    took: list[tuple[int, float]], events: int
) -> None:
    size = EpochSize(EpochTrigger(seconds=0.1, events=events))
    for count, seconds in took:
        size.took(count, seconds)
        assert 1 <= size.events <= events


# What a user sees --------------------------------------------------------------------------------------------------


class Tally:
    """Counts its events in a state and makes a row of each; made anew for every run, as a process would."""

    def __init__(self, directory: Path, values: list[int]) -> None:
        self.directory = directory
        self.values = values
        self.on_event: Callable[[int], None] = lambda _: None
        self.batches = False

    def service(self) -> tpc.Service:
        service = tpc.service("tally", directory=self.directory / "service")
        numbers = service.read(IterableSource(lambda: self.values, name="numbers"))
        count: Any = service.state("count")

        def taken(number: int, out: Any) -> None:
            self.on_event(number)
            count["all"] = count.get("all", 0) + 1
            out.row("rows", {"n": number, "count": count["all"]})

        def all_taken(events: list[int], out: Any) -> None:
            for number in events:
                taken(number, out)

        service.each_batch(numbers)(all_taken) if self.batches else service.each(numbers)(taken)
        service.write("rows", {"n": int, "count": int}).to(FileSink(self.directory / "out", name="out"))
        return service

    def run(self, every: Any, *, until_end: bool = True) -> None:
        self.service().run(every=every, until_end=until_end)

    def is_right(self) -> bool:
        paths = (self.directory / "out").glob("*.parquet")
        rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
        right = [{"n": n, "count": place} for place, n in enumerate(self.values, 1)]
        return sorted(rows, key=lambda row: row["count"]) == right

    def epochs(self) -> list[dict[str, Any]]:
        return epoch_rows(Journal(self.service().log).open())

    def sizes(self) -> list[int]:
        return [row["rows"] for row in self.epochs() if row["status"] == "complete"]

    def dies_decided(self, every: int) -> None:
        """An epoch is decided, and nothing of it is left: its rows must be computed again."""

        def lose(step: str, where: Mapping[str, Any]) -> None:
            for staged in (self.directory / "out").rglob("*.parquet"):
                staged.unlink()
            die(step, where)

        failpoints.install({"epoch.decided": lose})
        try:
            with pytest.raises(Die):
                self.run(every)
        finally:
            failpoints.install({})


@pytest.mark.slow
def test_a_backlog_of_slow_events_is_many_epochs(tmp_path: Path) -> None:
    tally = Tally(tmp_path, list(range(300)))
    tally.on_event = lambda _: time.sleep(0.02)
    tally.run(tpc.seconds(0.01))
    assert tally.is_right()
    assert max(tally.sizes()) <= FIRST_EVENTS


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_bound_shows_in_what_is_written(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    chance = random.Random(seed)
    tally = Tally(tmp_path_factory.mktemp("tally"), [])
    for _ in range(4):
        tally.values += range(len(tally.values), len(tally.values) + chance.randint(0, 200))
        bounds = {"events": chance.randint(1, 150), "bytes": chance.randint(1, 3000)}
        if chance.random() < 0.5:
            bounds["seconds"] = 0
        tally.run(EpochTrigger(**bounds))
    assert tally.is_right()


@pytest.mark.parametrize("every", [1, EpochTrigger(seconds=0.0, events=7, bytes=1)], ids=["events", "all"])
def test_a_decided_epoch_is_read_again_whole_whatever_the_bounds_are_now(every: Any, tmp_path: Path) -> None:
    tally = Tally(tmp_path, list(range(60)))
    tally.dies_decided(60)
    tally.run(every)
    assert tally.is_right()
    assert tally.sizes()[0] == 60


# A stop ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_cancellation, "GIVE_UP_AFTER_S", 0.2)
    monkeypatch.setattr(epoch_cancellation, "_LOOK_INTERVAL_S", 0.1)
    monkeypatch.setattr(running, "_UPKEEP_INTERVAL_S", 0.1)


@pytest.mark.usefixtures("_soon")
def test_a_stop_gives_up_an_epoch_that_takes_long_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    tally = Tally(tmp_path, list(range(2_000)))
    called: list[int] = []

    def slow(number: int) -> None:
        called.append(number)
        if number == 5:
            StopRequest(tally.service().checkpoint.notes).make()
        time.sleep(0.01)

    tally.on_event = slow
    tally.run(2_000, until_end=False)
    assert len(called) < 1_000
    assert tally.sizes() == []
    tally.on_event = lambda _: None
    tally.run(500)
    assert tally.is_right()


@pytest.mark.usefixtures("_soon")
def test_an_epoch_that_ends_soon_is_ended(tmp_path: Path) -> None:
    tally = Tally(tmp_path, list(range(20)))

    def stop_at_5(number: int) -> None:
        if number == 5:
            StopRequest(tally.service().checkpoint.notes).make()

    tally.on_event = stop_at_5
    tally.run(20, until_end=False)
    assert tally.sizes() == [20]
    assert tally.is_right()


@pytest.mark.usefixtures("_soon")
def test_a_decided_epoch_that_is_computed_again_is_not_given_up(tmp_path: Path) -> None:
    tally = Tally(tmp_path, list(range(60)))
    tally.dies_decided(60)

    def slow(number: int) -> None:
        if number == 5:
            StopRequest(tally.service().checkpoint.notes).make()
        time.sleep(0.02)

    tally.on_event = slow
    tally.run(60, until_end=False)
    assert tally.sizes() == [60]
    assert tally.is_right()


# What is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["seconds", "events", "bytes"])
@pytest.mark.parametrize("value", ["5", [1], -1, float("nan"), float("inf"), True, b"5"], ids=repr)
def test_a_bound_that_is_none_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}=") as raised:
        EpochTrigger(**{name: value})
    assert raised.value.remedy


def test_it_is_of_the_public_face() -> None:
    assert tpc.EpochTrigger is EpochTrigger
