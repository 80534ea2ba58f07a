"""What a timer of a service refuses by name, and what goes wrong in a firing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.timeouts import Event, Timeouts, each_kind
from tpc.coordinator.service import firing
from tpc.errors import ConfigurationError, DataError, StateMachineError
from tpc.sinks import FileSink
from tpc.sources import IterableSource
from tpc.watermark import TIME_MAX_MS

# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("does", "kind", "what"),
    [
        (lambda timer: timer.set("k"), ConfigurationError, "is set with neither at= nor after="),
        (lambda timer: timer.set("k", at=1, after=1), ConfigurationError, "is set with both at= and after="),
        (lambda timer: timer.set("k", at=1.5), DataError, "no whole number of milliseconds"),
        (lambda timer: timer.set("k", at=True), DataError, "no whole number of milliseconds"),
        (lambda timer: timer.set("k", at=TIME_MAX_MS + 1), DataError, "no whole number of milliseconds"),
        (lambda timer: timer.set("k", after=-0.1), DataError, "no number of seconds"),
        (lambda timer: timer.set("k", after=float("nan")), DataError, "no number of seconds"),
        (lambda timer: timer.set("k", after="5"), DataError, "no number of seconds"),
        (lambda timer: timer.set(object(), at=1), DataError, "timer 'timeout': a key cannot be kept: it holds a"),
        (lambda timer: timer.cancel({1: object()}), DataError, "timer 'timeout': a key cannot be kept: it holds a"),
    ],
    ids=["nothing", "both", "float", "bool", "too late", "back", "nan", "text", "key", "cancelled key"],
)
def test_what_cannot_be_set_is_refused_by_name(does: Any, kind: type[Exception], what: str, tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path)
    timeouts.events = [("a", 0)]
    timeouts.does = lambda timer, event, out: does(timer)
    with pytest.raises(kind, match=what):
        timeouts.run()
    timeouts.has_letters = True
    if kind is DataError:
        timeouts.run()
        assert len(list((tmp_path / "dead").glob("*.parquet"))) == 1
    else:
        with pytest.raises(kind, match=what):
            timeouts.run()


def test_a_time_from_an_event_that_has_none_is_refused(tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path)
    timeouts.events = [("a", 0)]

    def other(service: tpc.Service) -> None:
        untimed = service.read(IterableSource([1], name="untimed"))
        service.each(untimed)(lambda event, out: timeouts.timer.set("k", after=1))

    timeouts.functions = [other]
    with pytest.raises(ConfigurationError, match="there is no event with a time at hand"):
        timeouts.run()


def test_a_timer_is_for_the_functions_in_whose_pass_it_fires(tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path)
    timeouts.events = [("a", 0)]
    timeouts.service()
    with pytest.raises(StateMachineError, match="timer 'timeout' is set outside of an epoch"):
        timeouts.timer.set("a", at=1)
    timeouts.functions = [lambda service: service.at_cut(lambda out: timeouts.timer.cancel("a"))]
    with pytest.raises(StateMachineError, match="is cancelled by a function in whose pass it does not fire"):
        timeouts.run()
    timeouts.functions = []
    met: list[Exception] = []

    def elsewhere(timer: Any, event: Any, out: Any) -> None:
        def use() -> None:
            try:
                timer.pending("a")
            except StateMachineError as error:
                met.append(error)

        thread = threading.Thread(target=use)
        thread.start()
        thread.join()

    timeouts.does = elsewhere
    timeouts.run()
    assert "timer 'timeout' is asked by another thread than the one that runs epoch 0" in str(met[0])


def test_what_is_declared_wrongly_is_refused_before_a_start(tmp_path: Path) -> None:
    service = tpc.service("wrong", directory=tmp_path)
    events = service.read(IterableSource([("a", 0)]), time=lambda event: event[1])
    with pytest.raises(ConfigurationError, match="timer 'other' cannot fire by 'day'"):
        service.timer("other", by="day")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="has on_expiry and no time to live"):
        service.state("kept", on_expiry=print)
    with pytest.raises(
        ConfigurationError, match=r"timers=\[State\('held', .*which is no list of those of this service"
    ):
        service.each(events, timers=[service.state("held")])
    with pytest.raises(ConfigurationError, match="which is no list of those of this service"):
        service.each(events, timers=service.state("other"))  # type: ignore[arg-type]
    timer = service.timer("timeout", by="event time")

    async def later(key: Any, at_ms: int, out: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="the function of timer 'timeout'"):
        timer.fires(later)
    service.each(events)(lambda event, out: None)
    service.write("rows", {"n": int}).to(FileSink(tmp_path / "rows", name="rows"))
    with pytest.raises(ConfigurationError, match="timer 'timeout' has no function"):
        service.run(until_end=True)
    timer.fires(print)
    with pytest.raises(ConfigurationError, match="timer 'timeout' has a function already, print"):
        timer.fires(print)
    service.each(events)(lambda event, out: None)
    with pytest.raises(ConfigurationError, match=r"both take the events of source 'values'.* fire in the pass of both"):
        service.run(until_end=True)


def test_a_timer_by_event_time_needs_events_with_a_time(tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path)
    timeouts.is_timed = False
    with pytest.raises(ConfigurationError, match="timer 'timeout' fires by event time, and no event has a time"):
        timeouts.run()


def test_of_two_functions_over_one_source_the_one_that_names_it_has_the_timer(tmp_path: Path) -> None:
    seen: list[Any] = []
    service = tpc.service("named", directory=tmp_path / "service")
    events = service.read(IterableSource([0, 500]), time=int)
    timer = service.timer("timeout", by="event time")
    service.each(events)(lambda event, out: seen.append(("other", event)))

    @service.each(events, timers=[timer])
    def own(event: int, out: Any) -> None:
        timer.set(event, after=0.1)
        seen.append(("own", event))

    timer.fires(lambda key, at_ms, out: seen.append(("fired", key)))
    service.write("rows", {"n": int}).to(FileSink(tmp_path / "rows", name="rows"))
    service.run(every=2, until_end=True)
    assert seen == [("other", 0), ("other", 500), ("own", 0), ("own", 500), ("fired", 0)]


@each_kind
def test_a_store_of_other_things_is_refused(kind: Any, tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path, kind=kind)
    timeouts.events = [("a", 0)]
    timeouts.run()
    timeouts.by = "clock"
    with pytest.raises(ConfigurationError, match="holds times by event time, and the program has it by clock"):
        timeouts.run()


# What goes wrong in a firing -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("has_letters", [True, False])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("fails", ["raises", "row", "value"])
def test_an_error_in_a_firing_names_it_and_ends_the_epoch(
    fails: str, every: int, has_letters: bool, tmp_path: Path
) -> None:
    timeouts = Timeouts(tmp_path)
    timeouts.events = [("a", 0), ("b", 100), ("c", 350)]
    timeouts.has_letters = has_letters

    def told(key: str, at_ms: int, out: Any) -> None:
        if fails == "raises":
            raise ValueError("not today")
        if fails == "row":
            out.row("rows", {"key": 7, "what": "fired", "at": at_ms})
        kept[0]["x"] = object()

    kept: list[Any] = []
    timeouts.functions = [lambda service: kept.insert(0, service.state("kept"))]
    timeouts.told = told
    for _ in range(2):
        with pytest.raises(DataError) as met:
            timeouts.run(every)
        named = "timer 'timeout' for the key 'a' at 300 (1970-01-01 00:00:00.300 UTC)"
        assert (met.value.position, met.value.function) == (named, named)
        assert f"{named} has failed: " in met.value.what
    timeouts.told = lambda key, at_ms, out: None
    timeouts.run(every)
    assert timeouts.rows("fired") == [("a", 300)]
    assert len(timeouts.rows("came")) == 3


def test_firings_that_set_one_another_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing, "AT_ONE_TIME", 50)
    timeouts = Timeouts(tmp_path)
    timeouts.events = [("a", 0), ("b", 1_000)]
    timeouts.told = lambda key, at_ms, out: timeouts.timer.set("b" if key == "a" else "a", at=300)
    with pytest.raises(ConfigurationError, match=r"of 5\d firings in a row that have set one another"):
        timeouts.run()
    timeouts.told = lambda key, at_ms, out: [timeouts.timer.set((key, n), at=300) for n in range(500 * (key == "a"))]
    timeouts.run()
    assert len(timeouts.rows("fired")) == 501


def test_what_an_event_leaves_that_cannot_be_kept_is_not_the_error_of_a_firing_that_meets_it(tmp_path: Path) -> None:
    timeouts = Timeouts(tmp_path)
    timeouts.events = [("a", 0), ("bad", 500), ("c", 900)]
    kept: list[Any] = []

    def declare(service: tpc.Service) -> None:
        kept[:] = [service.state("kept", ttl=tpc.seconds(10))]

    def does(timer: Any, event: Event, out: Any) -> None:
        kept[0]["x"] = [object() if event[0] == "bad" else 1]
        timer.set(event[0], after=0.1)

    timeouts.functions, timeouts.does = [declare], does
    timeouts.told = lambda key, at_ms, out: kept[0].get("x")
    with pytest.raises(DataError, match="cannot be kept") as met:
        timeouts.run(3)
    assert met.value.position == "value 1"
