"""Who is asked for events, for how many, and how long it is waited for; on a clock that a test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace

import pytest

from tpc.coordinator.service import cutting
from tpc.coordinator.service.cutting import QUIET_S, Cut, Cutter
from tpc.coordinator.service.epoch_input import SourceCut
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.functions import Input
from tpc.source import SourceReader
from tpc.sources import IterableSource


class Clock:
    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(cutting, "time", SimpleNamespace(monotonic=made.monotonic, time=lambda: 0.0))
    return made


Poll = tuple[str, int, float]
"""Which source was asked, for how many events at most, and how long it may wait."""


class Told(IterableSource):
    """Notes each poll in a list that several share, and whether its reader was closed."""

    is_ahead = False
    is_closed = False
    confirmed = 0

    def __init__(self, values: Iterable[object], name: str, polls: list[Poll]) -> None:
        super().__init__(values, name=name)
        self.polls = polls

    def reader(self) -> SourceReader:
        made = super().reader()
        poll = made.poll

        def told(rows: int, timeout_s: float) -> int:
            self.polls.append((self.name, rows, timeout_s))
            return poll(rows, 0.0)

        def close() -> None:
            self.is_closed = True

        def confirm() -> None:
            self.confirmed += 1

        made.poll, made.close, made.confirm = told, close, confirm  # type: ignore[method-assign]
        made.is_ahead = lambda: self.is_ahead  # type: ignore[method-assign]
        return made


def cutter_of(*sources: IterableSource, rows: int | None = None, seconds: float | None = None) -> Cutter:
    trigger = EpochTrigger(events=rows) if rows is not None else EpochTrigger(seconds=seconds)
    cutter = Cutter([Input(source, None) for source in sources], trigger)
    cutter.seek([])
    return cutter


def looking(times: int) -> Callable[[], bool]:
    """It is asked to stop, once it has looked so often."""
    looks = iter([False] * times)
    return lambda: next(looks, True)


def cut(cutter: Cutter, looks: int = 9) -> Cut | None:
    return cutter.next(looking(looks), lambda: None, until_end=False)


# Turns ---------------------------------------------------------------------------------------------------------------


def test_each_source_is_asked_first_in_turn() -> None:
    polls: list[Poll] = []
    cutter = cutter_of(*(Told(range(100), name, polls) for name in "abc"), rows=10)
    for _ in range(4):
        assert cut(cutter) is not None
    assert [name for name, _, _ in polls] == ["a", "b", "c", "a"]  # the first has enough for an epoch, each time


def test_a_source_is_asked_for_what_is_left_of_an_epoch_and_none_for_nothing() -> None:
    polls: list[Poll] = []
    cutter = cutter_of(Told(range(7), "a", polls), Told(range(9), "b", polls), Told([0], "c", polls), rows=10)
    made = cut(cutter)
    assert made is not None
    assert ([(name, rows) for name, rows, _ in polls], made.came) == ([("a", 10), ("b", 3)], 10)


def test_the_last_event_of_an_epoch_is_asked_for_too() -> None:
    polls: list[Poll] = []
    values = [0, 1]
    cutter = cutter_of(Told(values, "a", polls), rows=3)
    assert cut(cutter, looks=1) is None
    values.append(2)
    assert cut(cutter) is not None
    assert polls[1][1] == 1


# Waits ---------------------------------------------------------------------------------------------------------------


def test_a_source_is_waited_for_only_when_no_other_had_anything_and_each_a_share_of_the_time() -> None:
    polls: list[Poll] = []
    cutter = cutter_of(Told([], "a", polls), Told([], "b", polls), rows=10)
    assert cut(cutter, looks=3) is None
    assert [wait_s for _, _, wait_s in polls] == [0.0, 0.0, 0.1, 0.1, 0.1, 0.1]


@pytest.mark.parametrize(
    ("after_s", "wait_s"), [(5.0, 0.2), (9.9375, 0.0625), (9.0, 0.2)], ids=["long before", "right before", "before"]
)
def test_it_is_waited_no_longer_than_until_an_epoch_is_due(clock: Clock, after_s: float, wait_s: float) -> None:
    polls: list[Poll] = []
    cutter = cutter_of(Told([1], "a", polls), seconds=10.0)
    clock.now_s += after_s
    assert cut(cutter, looks=2) is None
    assert [wait for _, _, wait in polls] == [0.0, wait_s]


def test_without_events_nothing_is_due_and_it_is_waited_as_ever(clock: Clock) -> None:
    polls: list[Poll] = []
    cutter = cutter_of(Told([], "a", polls), seconds=10.0)
    clock.now_s += 11.0
    assert cut(cutter, looks=2) is None
    assert [wait for _, _, wait in polls] == [0.0, 0.2]


@pytest.mark.parametrize(("after_s", "is_due"), [(9.5, False), (10.0, True), (12.0, True)])
def test_an_epoch_is_due_so_long_after_the_one_before_it(clock: Clock, after_s: float, is_due: bool) -> None:
    values = [1]
    cutter = cutter_of(Told(values, "a", []), seconds=10.0)
    clock.now_s += 10.0
    assert cut(cutter) is not None
    values.append(2)
    clock.now_s += after_s
    assert (cut(cutter) is not None) == is_due


@pytest.mark.parametrize(("after_s", "is_recorded"), [(QUIET_S - 1, False), (QUIET_S, True), (QUIET_S + 1, True)])
def test_a_position_that_moved_without_events_is_recorded_so_long_after_the_last_cut(
    clock: Clock, after_s: float, is_recorded: bool
) -> None:
    source = Told([], "a", [])
    cutter = cutter_of(source, rows=10)
    source.is_ahead = True
    clock.now_s += after_s
    assert (cut(cutter) is not None) == is_recorded


def test_events_that_wait_for_more_are_not_cut_for_a_position(clock: Clock) -> None:
    source = Told([1], "a", [])
    cutter = cutter_of(source, rows=10)
    source.is_ahead = True
    clock.now_s += QUIET_S
    assert cut(cutter) is None


# The end -------------------------------------------------------------------------------------------------------------


def test_a_service_that_is_to_stop_cuts_no_epoch_of_positions() -> None:
    source = Told(range(3), "a", [])
    source.start_varies = True
    cutter = cutter_of(source, rows=2)
    assert cutter.next(lambda: True, lambda: None, until_end=False) is None
    first = cut(cutter)
    assert first is not None and first.came == 0


def test_every_source_is_let_go_of() -> None:
    sources = [Told([], name, []) for name in "ab"]
    cutter_of(*sources, rows=1).close()
    assert [source.is_closed for source in sources] == [True, True]


def test_an_epoch_whose_sources_are_all_retired_has_no_events_to_hand_over() -> None:
    retired = SourceCut("a", "3", "3").retired()
    made = Cut({}, (retired,))
    assert (made.take(), made.take()) == ({}, {})


# Before the decision -------------------------------------------------------------------------------------------------


def test_a_source_is_asked_to_confirm_an_epoch_that_has_moved_it_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, quiet = Told(range(9), "busy", []), Told(range(1), "quiet", [])
    cutter = cutter_of(busy, quiet, rows=2)
    for reader in cutter._readers:
        monkeypatch.setattr(reader, "identities", lambda: {"": "1"})
    for epoch in range(1, 6):
        made = cutter.next(looking(9), lambda: None, until_end=True)
        assert made is not None
        before = busy.confirmed, quiet.confirmed
        if confirm := cutter.confirmation():
            confirm()
        asked = busy.confirmed - before[0], quiet.confirmed - before[1]
        moved = tuple(int(epoch == 1 or source.start != source.end) for source in made.sources)
        assert asked == moved  # the first epoch records where they begin
    assert moved == (1, 0)
