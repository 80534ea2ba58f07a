"""Windows of a service: what is added to which of them, when they are told, and what comes too late."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import tpc
from tests.coordinator.service.test_timers_and_cut import Again
from tests.coordinator.service.test_times_of_a_service import manifests
from tests.coordinator.service.timeouts import each_kind
from tpc.__main__ import app
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.operations import actions
from tpc.errors import ConfigurationError, DataError, StateMachineError
from tpc.sinks import FileSink, KafkaChangelog
from tpc.sources import IterableSource
from tpc.watermark import TIME_MAX_MS
from tpc.windows import Hopping, Session, Tumbling, Window

TENTH = Tumbling(0.1)


def listed(values: Any, value: Any) -> Any:
    """All values of a window, in the order in which they came."""
    return (*(values or ()), value)


class Windowed:
    """Each event (key, time, value) goes to the windows of its key; `told` are the results, `late` what was late.

    They are noted as the functions are called: a run in which none is undone calls each once.
    """

    def __init__(self, directory: Path, of: Any = TENTH, kind: Any = dict, **options: Any) -> None:
        self.directory, self.of, self.kind, self.options = directory, of, kind, options
        self.events: list[Any] = []
        self.told: list[tuple[Any, int, int, Any]] = []
        self.results: list[tuple[Any, Window, Any]] = []
        self.late: list[tuple[Any, Any, int, int]] = []
        self.does: Callable[[Any, Any, Any], object] = lambda windows, event, out: windows.add(
            event[0], event[2], out, at=event[1]
        )
        self.result: Callable[[Any, Window, Any, Any], object] = lambda key, window, values, out: None
        self.before: list[Callable[[Any], object]] = []
        """Called with each service before its windows and functions are declared."""
        self.functions: list[Callable[[Any], object]] = []
        """Called with each service before it runs."""
        self.also: list[Any] = []
        """What fires in the same pass."""
        self.name, self.place = "sums", "service"
        self.has_letters = False
        self.is_timed = True
        self.windows: Any = None

    def service(self) -> tpc.Service:
        service = tpc.service("windowed", directory=self.directory / self.place)
        events = service.read(
            Again(lambda: self.events, name="events"), time=(lambda event: event[1]) if self.is_timed else None
        )
        for function in self.before:
            function(service)
        options = {"add": listed, "result": self._result, "late": self._late, **self.options}
        self.windows = service.windows(self.name, self.of, self.kind, **options)

        @service.each(events, timers=[self.windows, *self.also])
        def taken(event: Any, out: Any) -> None:
            self.does(self.windows, event, out)

        service.write("rows", {"key": str, "start": int, "values": str}).to(
            FileSink(self.directory / "rows", name="rows")
        )
        if self.has_letters:
            service.dead_letters_to(FileSink(self.directory / "dead", name="dead"), max_share=1.0)
        for function in self.functions:
            function(service)
        return service

    def _result(self, key: Any, window: Window, values: Any, out: Any) -> None:
        self.result(key, window, values, out)
        self.told.append((key, window.start_ms, window.end_ms, values))
        self.results.append((key, window, values))
        out.row("rows", {"key": str(key), "start": window.start_ms, "values": str(values)})

    def _late(self, key: Any, value: Any, window: Window, out: Any) -> None:
        self.late.append((key, value, window.start_ms, window.end_ms))

    def run(self, every: int = 1) -> None:
        self.service().run(every=every, until_end=True)

    def rows(self) -> list[tuple[str, int, str]]:
        paths = (self.directory / "rows").glob("*.parquet")
        found = [row for path in paths for row in pq.read_table(path).to_pylist()]
        return sorted((row["key"], row["start"], row["values"]) for row in found)

    def counted(self) -> int:
        return sum(manifest.counts["late"] for manifest in manifests(self.directory).values())


# When a window is told ----------------------------------------------------------------------------------------------


@each_kind
def test_a_window_is_told_once_when_the_watermark_has_come_to_its_end(kind: Any, tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, kind=kind)
    windowed.events = [("a", 0, 1), ("a", 99, 2)]
    windowed.run()
    assert windowed.told == []
    windowed.events.append(("b", 100, 3))
    windowed.run()
    assert windowed.told == [("a", 0, 100, (1, 2))]
    windowed.events.append(("b", 1_000, 4))
    windowed.run()
    assert windowed.told[1:] == [("b", 100, 200, (3,))]
    assert windowed.results[0][1] == Window(0, 100, revision=0, is_final=True)
    assert windowed.rows() == [("a", 0, "(1, 2)"), ("b", 100, "(3,)")]


def test_a_window_waits_for_its_lateness_and_takes_what_comes_in_it(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, lateness=tpc.seconds(0.05))
    windowed.events = [("a", 0, 1), ("a", 149, 2), ("a", 50, 3), ("a", 150, 4)]
    windowed.run()
    assert windowed.told == [("a", 0, 100, (1, 3))]


def test_what_opens_a_window_after_its_end_and_in_its_lateness_is_told_with_it(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, lateness=tpc.seconds(0.05))
    windowed.events = [("a", 120, 1), ("b", 50, 2), ("a", 150, 3)]
    windowed.run()
    assert (windowed.told, windowed.late) == ([("b", 0, 100, (2,))], [])


def test_windows_are_told_in_the_order_of_their_ends_and_then_of_their_keys(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.events = [("b", 10, 1), ("a", 20, 2), ("c", 110, 3), ("a", 0, 4), ("z", 1_000, 5)]
    windowed.run(every=10)
    assert [(key, start) for key, start, _, _ in windowed.told] == [("a", 0), ("b", 0), ("c", 100)]


def test_windows_of_one_key_are_open_side_by_side(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, lateness=tpc.seconds(0.5))
    windowed.events = [("a", 0, 1), ("a", 250, 2), ("a", 50, 3), ("a", 120, 4), ("a", 5_000, 5)]
    windowed.run(every=2)
    assert windowed.told == [("a", 0, 100, (1, 3)), ("a", 100, 200, (4,)), ("a", 200, 300, (2,))]


@pytest.mark.parametrize("of", [TENTH, Session(0.1)])
def test_nothing_is_kept_of_a_window_that_is_over(of: Any, tmp_path: Path) -> None:
    held: list[list[Any]] = []
    windowed = Windowed(tmp_path, of, **({"merge": joined} if isinstance(of, Session) else {}))
    windowed.functions = [lambda service: service.at_cut(lambda out: held.append(list(windowed.windows._state)))]
    windowed.events = [("a", 0, 1), ("b", 100, 2)]
    windowed.run()
    assert [[key[0] for key in keys if isinstance(key, tuple)] for keys in held] == [["a"], ["b"]]


def test_hopping_windows_each_get_the_value(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, Hopping(0.1, 0.05))
    windowed.events = [("a", 60, 1), ("a", 110, 2), ("a", 1_000, 3)]
    windowed.run(every=3)
    assert windowed.told == [("a", 0, 100, (1,)), ("a", 50, 150, (1, 2)), ("a", 100, 200, (2,))]


def test_an_accumulator_that_is_changed_in_place_is_that_of_one_window_alone(tmp_path: Path) -> None:
    def into(values: Any, value: Any) -> Any:
        if values is None:
            return value  # the event's own list, in all windows
        values += value
        return values

    windowed = Windowed(tmp_path, Hopping(0.1, 0.05), add=into)
    windowed.events = [("a", 60, [1]), ("a", 110, [2]), ("a", 1_000, [3])]
    windowed.run(every=3)
    assert windowed.told == [("a", 0, 100, [1]), ("a", 50, 150, [1, 2]), ("a", 100, 200, [2])]


def test_windows_before_1970_are_told_too(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.events = [("a", -101, 1), ("a", -1, 2), ("a", 0, 3)]
    windowed.run()
    assert windowed.told == [("a", -200, -100, (1,)), ("a", -100, 0, (2,))]


def test_a_time_far_ahead_of_the_clock_opens_its_own_window_and_closes_none(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.events = [("a", 0, 1), ("a", TIME_MAX_MS, 2), ("a", 50, 3), ("a", 100, 4)]
    windowed.run(every=2)
    assert (windowed.told, windowed.late) == ([("a", 0, 100, (1, 3))], [])


def test_a_longer_window_takes_what_a_shorter_one_tells_however_far_the_watermark_has_jumped(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    told: list[Any] = []

    def with_longer(service: tpc.Service) -> None:
        longer = service.windows(
            "longer",
            Tumbling(1),
            add=listed,
            result=lambda key, window, values, out: told.append((key, window.start_ms, values)),
            lateness=tpc.seconds(0.001),
        )
        windowed.result = lambda key, window, values, out: longer.add(key, values, out, at=window.start_ms)
        windowed.also = [longer]

    windowed.before = [with_longer]
    windowed.events = [("a", 0, 1), ("a", 150, 2), ("a", 950, 3), ("a", 9_000, 4), ("a", 20_000, 5)]
    windowed.run(every=2)
    assert told == [("a", 0, ((1,), (2,), (3,))), ("a", 9_000, ((4,),))]


def test_a_firing_for_a_time_in_the_past_opens_no_window_that_is_over(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)

    def with_past(service: tpc.Service) -> None:
        past = service.timer("past", by="event time")
        past.fires(lambda key, at_ms, out: windowed.windows.add(key, at_ms, out, at=at_ms))
        windowed.does = lambda windows, event, out: past.set(event[0], at=event[2])
        windowed.also = [past]

    windowed.before = [with_past]
    windowed.events = [("a", 1_000, 1_000), ("b", 1_000, 50), ("c", 2_000, 2_000)]
    windowed.run(every=3)
    assert (windowed.told, windowed.late) == ([("a", 1_000, 1_100, (1_000,))], [("b", 50, 0, 100)])


def test_a_timer_by_the_clock_adds_to_what_is_open_by_the_watermark(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)

    def with_clock(service: tpc.Service) -> None:
        soon = service.timer("soon", by="clock")
        soon.fires(lambda key, at_ms, out: windowed.windows.add("a", key, out, at=key))
        windowed.does = lambda windows, event, out: soon.set(event[2], at=0)
        windowed.also = [soon]

    windowed.before = [with_clock]
    windowed.events = [("a", 150, 50), ("a", 150, 160), ("a", 500, 510)]
    windowed.run()
    assert windowed.late == [("a", 50, 0, 100)]
    assert windowed.told == [("a", 100, 200, (160,))]


def test_a_function_of_batches_gives_each_value_its_own_time(tmp_path: Path) -> None:
    told: list[Any] = []
    came = [10, 120, 130, 1_000]
    service = tpc.service("batches", directory=tmp_path / "service")
    events = service.read(IterableSource(came), time=int)
    windows = service.windows(
        "sums", TENTH, add=listed, result=lambda key, window, values, out: told.append((window.start_ms, values))
    )

    @service.each_batch(events)
    def taken(batch: list[int], out: Any) -> None:
        for event in batch:
            windows.add(None, event, out, at=event)

    service.write("rows", {"n": int}).to(FileSink(tmp_path / "rows", name="rows"))
    service.run(every=4, until_end=True)
    assert told == [(0, (10,)), (100, (120, 130))]


# Sessions -------------------------------------------------------------------------------------------------------------


def joined(earlier: Any, later: Any) -> Any:
    return (*earlier, *later)


@each_kind
def test_a_session_ends_when_nothing_has_come_for_its_gap(kind: Any, tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, Session(0.1), kind, merge=joined)
    windowed.events = [("a", 0, 1), ("a", 99, 2), ("b", 120, 3), ("a", 199, 4), ("b", 1_000, 5)]
    windowed.run(every=2)
    assert windowed.told == [("a", 0, 199, (1, 2)), ("b", 120, 220, (3,)), ("a", 199, 299, (4,))]


def test_an_event_between_two_sessions_makes_one_of_them_the_earlier_first(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, Session(0.1), merge=joined, lateness=tpc.seconds(1))
    windowed.events = [("a", 150, 1), ("a", 0, 2), ("a", 90, 3), ("b", 5_000, 4)]
    windowed.run()
    assert windowed.told == [("a", 0, 250, (2, 1, 3))]


def test_an_event_that_joins_an_open_session_is_not_late_whatever_its_own_time(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, Session(0.1), merge=joined)
    windowed.events = [("a", 100, 1), ("a", 190, 2), ("b", 280, 3), ("a", 150, 4), ("a", 50, 5), ("b", 2_000, 6)]
    windowed.run()
    assert windowed.told == [("a", 50, 290, (1, 2, 4, 5)), ("b", 280, 380, (3,))]
    assert windowed.late == []


def test_a_session_that_is_over_is_joined_no_more(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, Session(0.1), merge=joined)
    windowed.events = [("a", 0, 1), ("b", 100, 2), ("a", 50, 3), ("a", -60, 4), ("b", 2_000, 5)]
    windowed.run()
    assert windowed.told == [("a", 0, 100, (1,)), ("a", 50, 150, (3,)), ("b", 100, 200, (2,))]
    assert windowed.late == [("a", 4, -60, 40)]


# Results before the last ----------------------------------------------------------------------------------------------


def test_with_updates_a_window_is_told_at_its_end_for_each_late_value_and_when_it_is_over(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, lateness=tpc.seconds(0.1), updates=True)
    windowed.events = [("a", 0, 1), ("b", 100, 2), ("a", 10, 3), ("a", 20, 4), ("b", 199, 5), ("b", 200, 6)]
    windowed.run()
    assert [(window, values) for key, window, values in windowed.results if key == "a"] == [
        (Window(0, 100, 0, is_final=False), (1,)),
        (Window(0, 100, 1, is_final=False), (1, 3)),
        (Window(0, 100, 2, is_final=False), (1, 3, 4)),
        (Window(0, 100, 3, is_final=True), (1, 3, 4)),
    ]


def test_with_updates_and_no_lateness_a_window_is_told_once(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, updates=True)
    windowed.events = [("a", 0, 1), ("b", 100, 2), ("a", 10, 3)]
    windowed.run()
    assert windowed.results == [("a", Window(0, 100, 0, is_final=True), (1,))]
    assert windowed.late == [("a", 3, 0, 100)]


def test_with_updates_a_window_that_a_late_value_opens_is_told_at_once(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, lateness=tpc.seconds(0.1), updates=True)
    windowed.events = [("b", 150, 1), ("a", 10, 2), ("b", 210, 3)]
    windowed.run()
    assert [(window, values) for key, window, values in windowed.results if key == "a"] == [
        (Window(0, 100, 0, is_final=False), (2,)),
        (Window(0, 100, 1, is_final=True), (2,)),
    ]


def test_what_is_told_before_the_last_result_may_be_changed_and_the_window_stays_as_it_is(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, lateness=tpc.seconds(0.1), updates=True, add=lambda values, value: [value])
    windowed.result = lambda key, window, values, out: values.append("changed")
    windowed.events = [("a", 0, 1), ("b", 100, 2), ("a", 10, 3), ("b", 200, 6)]
    windowed.run(every=4)
    assert [values for key, _, values in windowed.results if key == "a"] == [
        [1, "changed"],
        [3, "changed"],
        [3, "changed"],
    ]


# What comes too late --------------------------------------------------------------------------------------------------


@each_kind
def test_a_value_that_comes_too_late_is_counted_and_given_to_late(kind: Any, tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, kind=kind, lateness=tpc.seconds(0.05))
    windowed.events = [("a", 0, 1), ("b", 150, 2), ("a", 99, 3), ("a", 100, 4), ("a", 10, 5)]
    windowed.run(every=2)
    assert windowed.late == [("a", 3, 0, 100), ("a", 5, 0, 100)]
    assert windowed.told == [("a", 0, 100, (1,))]
    assert windowed.counted() == 2


def test_a_late_value_is_counted_without_a_function_for_it(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, late=None)
    windowed.events = [("b", 150, 2), ("a", 99, 3)]
    windowed.run()
    assert windowed.counted() == 1
    assert [row["late"] for row in epoch_rows(Journal(windowed.service().log).open())] == [0, 1]


def test_a_value_is_late_for_some_hopping_windows_and_added_to_the_others(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, Hopping(0.1, 0.05))
    windowed.events = [("b", 120, 1), ("a", 60, 2), ("b", 1_000, 3)]
    windowed.run()
    assert windowed.late == [("a", 2, 0, 100)]
    assert ("a", 50, 150, (2,)) in windowed.told


def test_the_functions_can_ask_how_much_was_late_over_all_epochs_and_restarts(tmp_path: Path) -> None:
    seen: list[int] = []
    windowed = Windowed(tmp_path)
    windowed.functions = [lambda service: service.at_cut(lambda out: seen.append(windowed.windows.late()))]
    windowed.events = [("b", 150, 2), ("a", 99, 3)]
    windowed.run()
    windowed.events += [("a", 98, 3), ("a", 500, 3)]
    windowed.run()
    assert seen == [0, 1, 2, 2]


def test_what_late_makes_goes_out_with_the_epoch(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.options["late"] = lambda key, value, window, out: out.row(
        "rows", {"key": f"late {key}", "start": window.start_ms, "values": str(value)}
    )
    windowed.events = [("b", 150, 2), ("a", 99, 3)]
    windowed.run()
    assert windowed.rows() == [("late a", 0, "3")]


def test_a_refused_event_has_added_nothing_and_is_not_counted_as_late(tmp_path: Path) -> None:
    def does(windows: Any, event: Any, out: Any) -> None:
        windows.add(event[0], event[2], out, at=event[1])
        if event[2] == 0:
            raise ValueError("refused")

    windowed = Windowed(tmp_path, late=None)
    windowed.has_letters = True
    windowed.does = does
    windowed.events = [("a", 10, 0), ("a", 20, 1), ("b", 150, 2), ("a", 30, 0), ("a", 40, 3)]
    windowed.run(every=5)
    assert windowed.rows() == [("a", 0, "(1,)")]
    assert windowed.counted() == 1


# Restarts and other machines ------------------------------------------------------------------------------------------


def test_a_start_with_other_windows_of_the_name_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.events = [("a", 0, 1)]
    windowed.run()
    windowed.of = Tumbling(0.2)
    with pytest.raises(ConfigurationError, match=r"'sums' were begun with kind=tumbling, size_ms=100, .* size_ms=200"):
        windowed.run()
    windowed.of, windowed.options["lateness"] = TENTH, tpc.seconds(1)
    with pytest.raises(ConfigurationError, match=r"lateness_ms=0, .* lateness_ms=1000"):
        windowed.run()
    del windowed.options["lateness"]
    windowed.events.append(("a", 100, 2))
    windowed.run()
    assert windowed.told == [("a", 0, 100, (1,))]


def test_windows_do_not_take_over_a_state_of_their_name(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.events = [("a", 0, 1)]

    def before(kind: str) -> tpc.Service:
        service = tpc.service("windowed", directory=tmp_path / "service")
        events = service.read(Again(lambda: windowed.events, name="events"), time=lambda event: event[1])
        state = service.state("sums-open")
        service.timer("sums-close", by="event time").fires(print)
        service.each(events)(lambda event, out: state.update({"a": 1}))
        service.write("rows", {"key": str, "start": int, "values": str}).to(FileSink(tmp_path / "rows", name="rows"))
        return service

    before("plain").run(every=1, until_end=True)
    with pytest.raises(ConfigurationError, match="'sums-open' holds keys of a state, and no windows"):
        windowed.run()


@each_kind
def test_open_windows_move_with_a_savepoint(kind: Any, tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, kind=kind)
    windowed.events = [("a", 0, 1), ("b", 50, 2)]
    windowed.run()
    said = ["savepoint", str(tmp_path / "service"), "--to", str(tmp_path / "kept"), "--json"]
    done = CliRunner().invoke(app, said)
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)["savepoint"]
    done = CliRunner().invoke(app, ["restore", made, "--checkpoint", str(tmp_path / "moved"), "--move"])
    assert done.exit_code == 0, done.output
    windowed.place = "moved"
    windowed.events.append(("a", 100, 3))
    windowed.run()
    assert windowed.told == [("a", 0, 100, (1,)), ("b", 0, 100, (2,))]


def test_status_names_state_and_timer_of_windows_and_says_when_the_first_is_due(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, lateness=tpc.seconds(0.02))
    windowed.events = [("a", 0, 1), ("b", 110, 2)]
    windowed.run()
    told = actions.status(windowed.service().log, None)
    assert {"sums-open", "sums-close"} <= manifests(tmp_path)[1].sinks.keys()
    assert (told["timers"]["waiting"], told["timers"]["next_due_ms"]) == (2, 120)


# Keys, times and accumulators ---------------------------------------------------------------------------------------


def test_equal_keys_are_one_however_they_are_spelled(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.events = [(Decimal("1.0"), 0, 1), (Decimal("1.00"), 10, 2), (1, 20, 3), ("z", 100, 4)]
    windowed.run()
    assert sorted(windowed.told, key=str) == [(1, 0, 100, (3,)), (Decimal(1), 0, 100, (1, 2))]


@pytest.mark.parametrize("at", [None, 1.5, "0", True, TIME_MAX_MS + 1])
def test_a_time_that_is_no_whole_number_of_milliseconds_refuses_the_event(at: Any, tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.does = lambda windows, event, out: windows.add(event[0], 1, out, at=at)
    windowed.events = [("a", 0, 1)]
    with pytest.raises(DataError, match=r"windows 'sums': at=.* is no whole number of milliseconds"):
        windowed.run()


def test_an_accumulator_that_cannot_be_kept_refuses_the_event_that_made_it(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path, add=lambda values, value: object() if value == 2 else value)
    windowed.events = [("a", 0, 1), ("a", 10, 2), ("a", 20, 3)]
    with pytest.raises(
        DataError, match=r"windows 'sums': an accumulator cannot be kept: it holds a builtins\.object"
    ) as met:
        windowed.run(every=3)
    assert met.value.position is not None and "1" in str(met.value.position)


def test_a_result_that_fails_names_window_and_time_and_ends_the_epoch(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.result = lambda key, window, values, out: 1 / 0
    windowed.events = [("a", 0, 1), ("a", 100, 2)]
    with pytest.raises(DataError, match=r"timer 'sums-close' for the key \('a', 0\) at 100 .*ZeroDivisionError"):
        windowed.run()


def test_windows_are_for_the_functions_in_whose_pass_they_are_told(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.service()
    with pytest.raises(StateMachineError, match="timer 'sums-close' is asked outside of an epoch"):
        windowed.windows.add("a", 1, None, at=0)
    windowed.functions = [
        lambda service: service.at_cut(lambda out: windowed.windows.add("a", 1, out, at=0)),
    ]
    windowed.events = [("a", 0, 1)]
    with pytest.raises(StateMachineError, match="by a function in whose pass it does not fire"):
        windowed.run()


def test_a_function_that_runs_before_the_windows_pass_does_not_make_their_events_late(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)

    def service() -> tpc.Service:
        made = tpc.service("windowed", directory=tmp_path / "service")
        events = made.read(Again(lambda: windowed.events, name="events"), time=lambda event: event[1])
        other = made.timer("other", by="event time")
        other.fires(lambda key, at_ms, out: None)
        windows = made.windows("sums", TENTH, add=listed, result=windowed._result, late=windowed._late)
        made.each(events, timers=[other])(lambda event, out: other.set("a", after=1))
        made.each(events, timers=[windows])(lambda event, out: windows.add(event[0], event[2], out, at=event[1]))
        made.write("rows", {"key": str, "start": int, "values": str}).to(FileSink(tmp_path / "rows", name="rows"))
        return made

    windowed.events = [("a", 0, 1), ("a", 50, 2), ("a", 350, 3), ("a", 360, 4)]
    service().run(every=4, until_end=True)
    assert (windowed.late, windowed.told) == ([], [("a", 0, 100, (1, 2))])


# What is refused where it is declared ---------------------------------------------------------------------------------


async def later(*_: Any) -> None: ...


@pytest.mark.parametrize(
    ("of", "options", "match"),
    [
        (60, {}, "windows 'sums' cannot be 60"),
        (TENTH, {"lateness": -1}, "windows 'sums': lateness=-1 is not a length"),
        (TENTH, {"merge": joined}, "have merge= and are no sessions"),
        (Session(1), {}, "are sessions without merge="),
        (Session(1), {"merge": joined, "updates": True}, "are sessions with updates=True"),
        (TENTH, {"add": later}, r"add= of windows 'sums' \(later\) is a coroutine function"),
        (TENTH, {"late": later}, "late= of windows 'sums'"),
        (TENTH, {"result": None}, "windows: result= does not take None"),
        (TENTH, {"changelogs": [1]}, "windows: changelogs= does not take"),
    ],
)
def test_what_means_nothing_is_refused(of: Any, options: dict[str, Any], match: str, tmp_path: Path) -> None:
    service = tpc.service("wrong", directory=tmp_path)
    with pytest.raises(ConfigurationError, match=match):
        service.windows("sums", of, **{"add": listed, "result": print, **options})


def test_windows_need_events_with_a_time(tmp_path: Path) -> None:
    windowed = Windowed(tmp_path)
    windowed.is_timed = False
    with pytest.raises(ConfigurationError, match="timer 'sums-close' fires by event time, and no event has a time"):
        windowed.run()


def test_changelogs_are_two_one_for_the_state_and_one_for_the_timer(tmp_path: Path) -> None:
    def declared(*topics: str) -> tpc.Service:
        service = tpc.service("logged", directory=tmp_path)
        changelogs = [KafkaChangelog(topic, servers="localhost:1") for topic in topics]
        service.windows("sums", TENTH, add=listed, result=print, changelogs=changelogs)
        return service

    assert declared("open", "close").states_beside == {
        "sums-open",
        "sums-open-changelog",
        "sums-close",
        "sums-close-changelog",
    }
    with pytest.raises(ConfigurationError, match="give two, each with a topic of its own"):
        declared("open")
    with pytest.raises(ConfigurationError, match="is the changelog of two states"):
        declared("both", "both")


def test_a_function_with_windows_of_another_service_is_refused(tmp_path: Path) -> None:
    one, other = (tpc.service(name, directory=tmp_path / name) for name in ("one", "other"))
    windows = other.windows("sums", TENTH, add=listed, result=print)
    events = one.read(IterableSource([("a", 0)]), time=lambda event: event[1])
    with pytest.raises(ConfigurationError, match=r"timers=\[Windows\('sums'\)\], which is no list of those"):
        one.each(events, timers=[windows])
