"""When an epoch is cut for a timer, whatever the clock does, and what an epoch of very many firings does meanwhile."""

from __future__ import annotations

import logging
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tpc
from tests.coordinator.service.program import STEPS, Die, die
from tests.coordinator.service.test_timers_and_cut import losing
from tests.coordinator.service.test_times_of_a_service import manifests
from tests.coordinator.service.timeouts import Clock, Timeouts, each_kind
from tpc.coordinator.service import epoch_cancellation, firing, leader
from tpc.coordinator.service.cutting import Cutter
from tpc.coordinator.service.epoch_input import time_of
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.firing import Soonest
from tpc.coordinator.service.functions import Input
from tpc.coordinator.service.output import Output
from tpc.shards import Shard
from tpc.sinks import FileSink
from tpc.source import Source
from tpc.sources import IterableSource
from tpc.watermark import EpochTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(leader, "Cutter", partial(Cutter, wall_s=made))
    return made


# Whatever the clock does ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    readings_ms=st.lists(st.integers(0, 60).map(lambda n: 10 * n), min_size=1, max_size=30),
    due_ms=st.lists(st.integers(0, 70).map(lambda n: 10 * n), max_size=5),
    last_ms=st.sampled_from([None, 0, 300]),
)
@example(readings_ms=[100, 90], due_ms=[100], last_ms=None)
@example(readings_ms=[500, 0, 0, 510], due_ms=[500, 505], last_ms=None)
def test_an_epoch_without_events_is_cut_when_something_is_due_and_not_otherwise(
    readings_ms: list[int], due_ms: list[int], last_ms: int | None
) -> None:
    """Each look at the clock gets the next reading: it may jump and go back between two looks of one cut."""
    readings = iter(readings_ms)
    read: list[int] = []

    def wall_s() -> float:
        read.append(next(readings, readings_ms[-1]))
        return read[-1] / 1000

    def no_wait(*, until_end: bool) -> float:
        return 0.0

    cutter = Cutter([Input(IterableSource([]), None)], EpochTrigger(seconds=0.0), wall_s=wall_s, reads_clock=True)
    cutter._wait_s = no_wait  # type: ignore[method-assign]
    cutter.seek([], EpochTime(now_ms=last_ms))
    pending, present = sorted(due_ms), last_ms or 0
    for _ in range(40):
        cutter.wait_for(Soonest(None, pending[0] if pending else None))
        began, looks = len(read), iter([False])
        made = cutter.next(lambda looks=looks: next(looks, True), lambda: None, until_end=False)  # type: ignore[misc]
        if made is None:
            seen = max([present, *read[began:]])
            assert not pending or seen < pending[0], "it was due, and no epoch was cut"
            continue
        now_ms = made.time.now_ms
        assert now_ms is not None and now_ms >= present, "the time of an epoch has gone back"
        assert pending and pending[0] <= now_ms, "an epoch in which nothing fires"
        assert now_ms <= max([present, *read]), "a time that no clock has shown"
        pending, present = [each for each in pending if each > now_ms], now_ms


@each_kind
def test_a_takeover_whose_clock_is_behind_fires_what_was_due_and_waits_for_the_rest(
    kind: Any, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    timeouts = Timeouts(tmp_path, "clock", kind)
    timeouts.does = lambda timer, event, out: timer.set(event[0], after=tpc.seconds(event[1]))
    timeouts.events = [("a", 10), ("b", 40)]
    timeouts.run(2)
    clock.now_s += 10
    with pytest.raises(Die):
        timeouts.run(epoch_decided=losing(tmp_path))
    clock.now_s = 940.0
    with caplog.at_level(logging.WARNING, logger="tpc"):
        timeouts.run()
    assert timeouts.rows("fired") == [("a", 1_010_000)]
    assert sum("is 70 s behind the time that an earlier epoch has read" in each for each in caplog.messages) == 1
    timeouts.events.append(("c", 5))
    timeouts.run()
    assert timeouts.timer.by == "clock"
    clock.now_s = 1_014.999
    timeouts.run()
    assert timeouts.rows("fired") == [("a", 1_010_000)]
    clock.now_s = 1_015.0
    timeouts.run()
    assert timeouts.rows("fired") == [("a", 1_010_000), ("c", 1_015_000)]
    clock.now_s = 2_000_000.0
    timeouts.run()
    assert timeouts.rows("fired") == [("a", 1_010_000), ("b", 1_040_000), ("c", 1_015_000)]
    times = [time_of(manifest).now_ms for _, manifest in sorted(manifests(tmp_path).items())]
    assert times == [1_000_000, 1_010_000, 1_010_000, 1_015_000, 2_000_000_000]


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("later_s", [0.0, 1_000.0], ids=["at once", "when more is due"])
def test_an_epoch_of_firings_alone_that_ends_at_any_step_fires_each_timer_once(
    later_s: float, step: str, kind: Any, clock: Clock, tmp_path: Path
) -> None:
    timeouts = Timeouts(tmp_path, "clock", kind)
    timeouts.does = lambda timer, event, out: timer.set(event[0], after=tpc.seconds(event[1]))
    timeouts.told = lambda key, at_ms, out: None if "again" in key else timeouts.timer.set(f"{key} again", after=1.0)
    timeouts.events = [("a", 10), ("b", 10), ("c", 500)]
    timeouts.run(3)
    clock.now_s += 10
    dies: Any = {step.replace(".", "_"): die}
    with pytest.raises(Die, match=step):
        timeouts.run(**dies)
    clock.now_s += later_s
    timeouts.run()
    for clock.now_s in (1_000_000.0, 2_000_000.0):
        timeouts.run()
    assert [key for key, _ in timeouts.rows("fired")] == ["a", "a again", "b", "b again", "c", "c again"]
    assert [key for key, _ in timeouts.rows("came")] == ["a", "b", "c"]


@each_kind
def test_what_waits_by_event_time_is_told_once_when_nothing_comes_any_more(
    kind: Any, clock: Clock, tmp_path: Path
) -> None:
    """The recipe of docs/how-to/keep-state-without-spark.md."""
    timeouts, told = Timeouts(tmp_path, "clock", kind), list[tuple[str, int]]()
    lonely: Any = None

    def given_up(key: str, value: int, at_ms: int, out: Any) -> None:
        told.append((key, at_ms))

    def declare(service: tpc.Service) -> None:
        nonlocal lonely
        lonely = service.state("lonely", kind, ttl=tpc.seconds(0.3), on_expiry=given_up)

    def does(timer: Any, event: tuple[str, int], out: Any) -> None:
        timer.set(after=tpc.seconds(300))
        lonely[event[0]] = 1

    def nothing_comes(key: object, at_ms: int, out: Any) -> None:
        for each in list(lonely):
            given_up(each, lonely.pop(each), at_ms, out)

    timeouts.functions, timeouts.does, timeouts.told = [declare], does, nothing_comes
    timeouts.events = [("a", 0), ("b", 100), ("c", 350)]
    timeouts.run(2)
    assert told == [("a", 300)]
    clock.now_s += 299.999
    timeouts.run()
    assert told == [("a", 300)]
    clock.now_s += 0.001
    timeouts.run()
    assert sorted(told[1:]) == [("b", 1_300_000), ("c", 1_300_000)]
    timeouts.events.append(("d", 5_000))
    timeouts.run()
    assert len(told) == 3


@pytest.mark.parametrize("at_ms", [-62_135_596_800_000, -1, 0, 253_402_300_799_999])
@each_kind
def test_a_time_of_any_year_is_set_kept_and_told(at_ms: int, kind: Any, clock: Clock, tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path, "clock", kind)
    timeouts.does = lambda timer, event, out: timer.set(event[0], at=at_ms)
    timeouts.events = [("a", 0)]
    timeouts.run()
    timeouts.run()
    is_due = at_ms < 1_000_000
    assert timeouts.rows("fired") == ([("a", at_ms)] if is_due else [])
    last = manifests(tmp_path)[max(manifests(tmp_path))]
    assert last.counts.get("next_clock_due_ms") == (None if is_due else at_ms)


# Very many at once ----------------------------------------------------------------------------------------------------


def many(tmp_path: Path, keys: int) -> Timeouts:
    """All of them are due when the last event has come."""
    timeouts = Timeouts(tmp_path)
    timeouts.does = lambda timer, event, out: [timer.set((event[0], n), at=100) for n in range(keys * (event[1] == 0))]
    timeouts.events = [("a", 0), ("b", 500)]
    return timeouts


def test_the_rows_of_many_firings_become_columns_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing, "_LOOK_S", 0.0)
    monkeypatch.setattr("tpc.coordinator.service.output.AT_ONCE", 100)
    most = [0]

    def told(key: Any, at_ms: int, out: Output) -> None:
        most[0] = max(most[0], len(out._rows["rows"]))

    timeouts = many(tmp_path, 1_000)
    timeouts.told = told
    timeouts.run(1)
    assert len(timeouts.rows("fired")) == 1_000
    assert 0 < most[0] <= 101


def test_a_stop_does_not_wait_for_many_firings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_cancellation, "GIVE_UP_AFTER_S", 0.0)
    monkeypatch.setattr(firing, "_LOOK_S", 0.0)
    timeouts = many(tmp_path, 1_000)
    called: list[Any] = []

    def told(key: Any, at_ms: int, out: Any) -> None:
        called.append(key)
        if len(called) == 10:
            signal.raise_signal(signal.SIGTERM)

    timeouts.told = told
    timeouts.run(1)
    assert len(called) == 10
    assert timeouts.rows("fired") == []
    timeouts.told = lambda key, at_ms, out: None
    timeouts.run(1)
    assert len(timeouts.rows("fired")) == 1_000


# In shards ------------------------------------------------------------------------------------------------------------


class Divided(IterableSource):
    """Events of which each shard reads those of its own keys."""

    def __init__(self, events: list[tuple[int, int]], shard: Shard | None = None) -> None:
        super().__init__([each for each in events if shard is None or shard.takes(each[0])], name="events")
        self.events = events

    def sharded(self, shard: Shard) -> Source:
        return Divided(self.events, shard)


@each_kind
def test_each_shard_fires_its_own_timers_at_its_own_watermark_and_once(kind: Any, tmp_path: Path) -> None:
    events, fired = [(n, 100 * n) for n in range(12)], list[tuple[int, int]]()

    def run(shard: int) -> None:
        service = tpc.service("divided", directory=tmp_path / "service", shard=shard, of=2)
        timer = service.timer("timeout", kind, by="event time")

        @service.each(service.read(Divided(events), time=lambda event: event[1]))
        def taken(event: tuple[int, int], out: Any) -> None:
            timer.set(event[0], at=event[1] + 150)

        @timer.fires
        def told(key: int, at_ms: int, out: Any) -> None:
            fired.append((shard, key))

        service.write("rows", {"n": int}).to(FileSink(tmp_path / "rows", name="rows"))
        service.run(every=2, until_end=True)

    for shard in (0, 1, 0, 1):
        run(shard)
    assert fired == [(0, key) for key in range(0, 9, 2)] + [(1, key) for key in range(1, 10, 2)]
