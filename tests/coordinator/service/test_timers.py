"""Timers of a service: by event time and by the clock, and epochs that nothing but a timer makes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner

import tpc
from tests.coordinator.service.program import Die
from tests.coordinator.service.test_timers_and_cut import losing
from tests.coordinator.service.test_times_of_a_service import manifests
from tests.coordinator.service.timeouts import Clock, Timeouts
from tpc.__main__ import app
from tpc.coordinator.kernel.clock import SystemClock
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations import actions
from tpc.coordinator.operations.commands.status_lines import status_lines
from tpc.coordinator.operations.monitoring.epoch_report import timers_of
from tpc.coordinator.operations.monitoring.metrics import Metrics
from tpc.coordinator.service import cutting, leader
from tpc.coordinator.service.cutting import Cut, Cutter
from tpc.coordinator.service.epoch_input import time_of
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.firing import Soonest
from tpc.coordinator.service.functions import Input
from tpc.sinks import FileSink
from tpc.sources import IterableSource

Event = tuple[str, int]
each_kind = pytest.mark.parametrize("kind", [dict, "disk"], ids=["memory", "disk"])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(leader, "Cutter", partial(Cutter, wall_s=made))
    return made


# By event time -------------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("every", [1, 2, 3, 6])
def test_a_timer_fires_once_the_watermark_has_come_to_it_wherever_epochs_are_cut(
    every: int, kind: Any, tmp_path: Path
) -> None:
    timeouts = Timeouts(tmp_path, kind=kind)
    timeouts.events = [("a", 0), ("b", 100), ("a", 250), ("c", 400), ("d", 405), ("e", 700)]
    timeouts.run(every)
    assert timeouts.rows("fired") == [("a", 550), ("b", 400), ("c", 700)]
    timeouts.events.append(("f", 705))
    timeouts.run(every)
    assert timeouts.rows("fired") == [("a", 550), ("b", 400), ("c", 700), ("d", 705)]


def test_a_timer_without_a_key_is_one_for_all_and_goes_on_by_itself(tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path)
    timeouts.events = [("a", 0), ("b", 50), ("c", 260)]
    timeouts.does = lambda timer, event, out: timer.pending() or timer.set(at=event[1] + 100)
    timeouts.told = lambda key, at_ms, out: timeouts.timer.set(after=0.1)
    timeouts.run(2)
    assert timeouts.rows("fired") == [("None", 100), ("None", 200)]


def test_functions_that_share_a_timer_are_one_pass_over_their_sources(tmp_path: Path) -> None:
    fired: list[tuple[str, int]] = []
    orders, payments = [("one", 0), ("two", 10), ("later", 1_000)], [("two", 200), ("other", 900)]

    def run() -> None:
        service = tpc.service("paid", directory=tmp_path / "service")
        unpaid = service.timer("unpaid", by="event time")

        @service.each(service.read(IterableSource(lambda: orders, name="orders"), time=lambda event: event[1]))
        def ordered(event: Event, out: Any) -> None:
            unpaid.set(event[0], after=tpc.seconds(0.5))

        @service.each(service.read(IterableSource(lambda: payments, name="payments"), time=lambda event: event[1]))
        def paid(event: Event, out: Any) -> None:
            unpaid.cancel(event[0])

        @unpaid.fires
        def told(key: str, at_ms: int, out: Any) -> None:
            fired.append((key, at_ms))

        service.write("rows", {"n": int}).to(FileSink(tmp_path / "rows", name="rows"))
        service.run(every=100, until_end=True)

    run()
    assert fired == [("one", 500)]
    orders.append(("last", 1_600))
    payments.append(("last", 1_700))
    run()
    assert fired == [("one", 500), ("later", 1_500)]


def test_what_is_due_by_the_events_of_a_batch_fires_after_it(tmp_path: Path) -> None:
    seen: list[Any] = []
    came = [0, 50, 300, 350, 1_000]

    def run(every: int) -> None:
        service = tpc.service("batches", directory=tmp_path / "service")
        events = service.read(IterableSource(lambda: came), time=int)
        timer = service.timer("timeout", by="event time")

        @service.each_batch(events)
        def taken(batch: list[int], out: Any) -> None:
            seen.append(batch)
            for event in batch:
                timer.set(event, at=event + 100)

        timer.fires(lambda key, at_ms, out: seen.append(f"fired {key}"))
        service.write("rows", {"n": int}).to(FileSink(tmp_path / "rows", name="rows"))
        service.run(every=every, until_end=True)

    run(2)
    assert seen == [[0, 50], [300, 350], "fired 0", "fired 50", [1_000], "fired 300", "fired 350"]


@each_kind
def test_what_is_pending_moves_with_a_savepoint(kind: Any, tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path, kind=kind)
    timeouts.events = [("a", 0), ("b", 100), ("c", 350)]
    timeouts.run(2)
    said = ["savepoint", str(tmp_path / "service"), "--to", str(tmp_path / "kept"), "--json"]
    done = CliRunner().invoke(app, said)
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)["savepoint"]
    done = CliRunner().invoke(app, ["restore", made, "--checkpoint", str(tmp_path / "moved"), "--move"])
    assert done.exit_code == 0, done.output
    timeouts.place = "moved"
    timeouts.events.append(("d", 650))
    timeouts.run(2)
    assert timeouts.rows("fired") == [("a", 300), ("b", 400), ("c", 650)]


# By the clock --------------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("is_timed", [True, False])
def test_a_timer_by_the_clock_makes_an_epoch_of_its_own_when_it_is_due_and_not_before(
    kind: Any, is_timed: bool, clock: Clock, tmp_path: Path
) -> None:
    timeouts = Timeouts(tmp_path, "clock", kind)
    timeouts.is_timed = is_timed
    timeouts.does = lambda timer, event, out: timer.set(event[0], after=tpc.seconds(10))
    timeouts.events = [("a", 0)]
    timeouts.run()
    assert timeouts.epochs() == 1
    clock.now_s += 9.999
    timeouts.run()
    assert (timeouts.epochs(), timeouts.rows("fired")) == (1, [])
    clock.now_s += 0.001
    cuts: list[int] = []
    timeouts.functions = [lambda service: service.at_cut(lambda out: cuts.append(out.epoch))]
    timeouts.run()
    assert (timeouts.epochs(), timeouts.rows("fired")) == (2, [("a", 1_010_000)])
    clock.now_s += 100
    timeouts.run()
    assert (timeouts.epochs(), cuts) == (2, [1])


def test_a_timer_that_sets_itself_lets_a_run_to_the_end_of_the_sources_end(clock: Clock, tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path, "clock")
    timeouts.does = lambda timer, event, out: timer.set(event[0], at=0)

    def told(key: str, at_ms: int, out: Any) -> None:
        clock.now_s += 1
        timeouts.timer.set(key, after=0.5)

    timeouts.told = told
    timeouts.events = [("a", 0)]
    timeouts.run()
    assert timeouts.rows("fired") == [("a", 0), ("a", 1_000_500)]


@each_kind
@pytest.mark.parametrize("later_s", [5.0, 2_000_000.0])
def test_an_epoch_that_is_run_again_reads_no_clock(kind: Any, later_s: float, clock: Clock, tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path, "clock", kind)
    timeouts.does = lambda timer, event, out: timer.set(event[0], after=tpc.seconds(event[1]))
    timeouts.told = lambda key, at_ms, out: timeouts.timer.set(f"{key} again", after=tpc.seconds(100))
    timeouts.events = [("a", 10), ("b", 11)]
    timeouts.run(2)
    clock.now_s += 10.5
    with pytest.raises(Die):
        timeouts.run(epoch_decided=losing(tmp_path))
    clock.now_s, reads = later_s, clock.reads
    seen: list[int] = []

    def repaired(_step: str, _where: Any) -> None:
        seen.append(clock.reads - reads)

    timeouts.run(recovery_reconciled=repaired)
    assert seen == [0]
    fired = [("a", 1_010_000)] if later_s < 1_000 else [("a", 1_010_000), ("a again", 1_110_500), ("b", 1_011_000)]
    assert timeouts.rows("fired") == fired


def test_the_intent_holds_the_time_of_the_clock_and_it_never_goes_back(clock: Clock, tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path, "clock")
    timeouts.is_timed = False
    for now_s in (1_000.0, 990.0, 1_020.0):
        clock.now_s = now_s
        timeouts.events.append((f"at {now_s}", 0))
        timeouts.run()
    times = [time_of(manifest) for _, manifest in sorted(manifests(tmp_path).items())]
    assert [time.now_ms for time in times] == [1_000_000, 1_000_000, 1_020_000]


# When an epoch is cut ------------------------------------------------------------------------------------------------


def cut_of(cutter: Cutter, looks: int = 5) -> Cut | None:
    left: Iterator[bool] = iter([False] * looks)
    return cutter.next(lambda: next(left, True), lambda: None, until_end=False)


@pytest.fixture
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "IDLE_S", 0.001)


@pytest.mark.usefixtures("_looks_often")
@pytest.mark.parametrize("trigger", [EpochTrigger(events=10), EpochTrigger(seconds=0.0)])
def test_an_epoch_is_cut_without_events_when_something_is_due_by_the_clock(trigger: EpochTrigger) -> None:
    clock = Clock()
    cutter = Cutter([Input(IterableSource([]), None)], trigger, wall_s=clock, reads_clock=True)
    cutter.seek([])
    cutter.wait_for(Soonest(None, 1_000_001))
    assert cut_of(cutter) is None
    clock.now_s = 1_000.001
    made = cut_of(cutter)
    assert made is not None
    assert (made.came, made.time.now_ms) == (0, 1_000_001)
    cutter.wait_for(Soonest())
    assert cut_of(cutter) is None


def test_it_is_waited_until_a_timer_is_due_and_not_looked_again_and_again_when_it_has_been() -> None:
    clock = Clock()
    cutter = Cutter([Input(IterableSource([]), None)], EpochTrigger(events=10), wall_s=clock, reads_clock=True)
    cutter.wait_for(Soonest(None, 1_000_050))
    assert 0.04 < cutter._wait_s(until_end=False) <= 0.0501
    assert cutter._wait_s(until_end=True) == cutting.IDLE_S
    cutter = Cutter([Input(IterableSource([]), None)], EpochTrigger(seconds=60.0), wall_s=clock, reads_clock=True)
    cutter.wait_for(Soonest(None, 0))
    assert cutter._wait_s(until_end=False) == cutting.IDLE_S


def two(idle_after_s: float | None, quiet: Sequence[int], busy: Sequence[int]) -> Cutter:
    inputs = [
        Input(IterableSource(lambda: quiet, name="quiet"), int, idle_after_s),
        Input(IterableSource(lambda: busy, name="busy"), int),
    ]
    cutter = Cutter(inputs, EpochTrigger(seconds=0.0), wall_s=Clock())
    cutter.seek([])
    return cutter


@pytest.mark.usefixtures("_looks_often")
def test_an_epoch_is_cut_without_events_when_a_source_falls_silent_and_that_makes_something_due() -> None:
    cutter = two(0.01, [100], [500])
    first = cut_of(cutter)
    assert first is not None and first.time.reached_ms == 100
    cutter.wait_for(Soonest(event_ms=501))
    assert cut_of(cutter, looks=50) is None
    cutter.wait_for(Soonest(event_ms=500))
    made = cut_of(cutter, looks=50)
    assert made is not None
    assert (made.came, made.time.reached_ms, made.time.idle) == (0, 500, frozenset({"quiet"}))
    cutter.wait_for(Soonest(event_ms=501))
    assert cut_of(cutter) is None


@pytest.mark.usefixtures("_looks_often")
def test_a_source_that_is_never_idle_makes_no_epoch_and_one_that_says_otherwise_in_the_cut_makes_one() -> None:
    cutter = two(None, [100], [500])
    cut_of(cutter)
    cutter.wait_for(Soonest(event_ms=500))
    assert cut_of(cutter) is None
    cutter = two(0.001, [100], [500])
    cut_of(cutter)
    for reader in cutter._readers:
        reader._is_exhausted = False  # type: ignore[attr-defined]  # the cut finds that more is there
        reader.is_exhausted = lambda: True  # type: ignore[method-assign]
        reader.poll = lambda rows, timeout_s: 0  # type: ignore[method-assign]
    cutter.wait_for(Soonest(event_ms=500))
    made = cut_of(cutter, looks=200)
    assert made is not None and made.time.reached_ms == 100
    cutter.wait_for(Soonest(event_ms=500))
    assert cut_of(cutter, looks=200) is None


# For those who look on ------------------------------------------------------------------------------------------------


def test_status_and_metrics_say_what_waits_when_the_first_is_due_and_what_has_fired(
    clock: Clock, tmp_path: Path
) -> None:
    timeouts = Timeouts(tmp_path)
    timeouts.events = [("a", 0), ("b", 100), ("c", 350)]
    timeouts.functions = [_later]
    timeouts.run(4)
    told = actions.status(LocalLog(tmp_path / "service" / "tpc" / "log"), None)
    assert told["timers"] == {"waiting": 3, "fired": 1, "next_due_ms": 400, "next_clock_due_ms": 1_060_000}
    line = (
        "timers: 3 wait, the first due at 1970-01-01 00:00:00 UTC by event time, 1970-01-01 00:17:40 UTC by the clock"
    )
    assert f"{line}; 1 have fired in the last decided epoch" in status_lines(told)
    registry = CollectorRegistry()
    metrics = Metrics(registry, "timeouts", ["rows"], SystemClock())
    metrics._count_timers(timers_of(manifests(tmp_path)[max(manifests(tmp_path))]))
    of = {"pipeline": "timeouts"}
    assert registry.get_sample_value("tpc_timers_waiting", of) == 3
    assert registry.get_sample_value("tpc_timers_fired_total", of) == 1
    assert registry.get_sample_value("tpc_timers_next_due_timestamp_seconds", {**of, "by": "clock"}) == 1_060.0


def _later(service: tpc.Service) -> None:
    """One more timer, by the clock, which another function sets."""
    later = service.timer("later", by="clock")
    other = service.read(IterableSource([1], name="other"))
    service.each(other)(lambda event, out: later.set(after=60))
    later.fires(lambda key, at_ms, out: None)


def test_a_service_without_timers_tells_nothing_of_them(tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path)
    timeouts.events = [("a", 0)]
    timeouts.does = lambda timer, event, out: None
    timeouts.run()
    [manifest] = manifests(tmp_path).values()
    assert timers_of(manifest) == {"waiting": 0, "fired": 0, "next_due_ms": None, "next_clock_due_ms": None}
    assert timers_of(replace(manifest, counts={"rows": 1})) is None
