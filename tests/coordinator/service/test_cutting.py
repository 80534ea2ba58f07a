"""When an epoch is cut, and what is in it: of several sources each gets its turn, and nothing else waits for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tpc.coordinator.service import cutting
from tpc.coordinator.service.cutting import Cut, Cutter
from tpc.coordinator.service.epoch_input import SourceCut
from tpc.coordinator.service.epoch_trigger import EpochTrigger
from tpc.coordinator.service.functions import Input
from tpc.coordinator.service.topic_partitions import TopicPartitions
from tpc.errors import ConfigurationError, StateMachineError
from tpc.source import Part, Source, SourceReader
from tpc.sources import IterableSource


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test says how many times it is looked, and not for how long."""
    monkeypatch.setattr(cutting, "IDLE_S", 0.01)


def cutter_of(*sources: Source, rows: int, ends: Sequence[SourceCut] = ()) -> Cutter:
    cutter = Cutter([Input(source, None) for source in sources], EpochTrigger(events=rows))
    cutter.seek(ends)
    return cutter


def after(times: int) -> Callable[[], bool]:
    """It is asked to stop, once it has looked so often."""
    looks = iter([False] * times)
    return lambda: next(looks, True)


def cut(cutter: Cutter) -> Cut:
    made = cutter.next(after(9), lambda: None, until_end=False)
    assert made is not None
    return made


def test_where_a_source_begins_that_could_begin_elsewhere_is_an_epoch_of_its_own() -> None:
    numbers = IterableSource(range(3))
    numbers.start_varies = True
    cutter = cutter_of(numbers, rows=2)
    first = cut(cutter)
    assert (first.came, [(source.start, source.end) for source in first.sources]) == (0, [("0", "0")])
    assert cut(cutter).events == {"values": [0, 1]}
    assert cut(cutter_of(numbers, rows=2, ends=first.sources)).events == {"values": [0, 1]}


def test_upkeep_is_not_held_back_by_an_epoch_that_waits_for_more_events() -> None:
    kept_up: list[int] = []
    cutter = cutter_of(IterableSource(range(10)), rows=1000)
    assert cutter.next(after(3), lambda: kept_up.append(1), until_end=False) is None
    assert kept_up


def test_a_source_that_fills_every_epoch_does_not_keep_another_out() -> None:
    cutter = cutter_of(IterableSource(range(1000), name="busy"), IterableSource("ab", name="rare"), rows=10)
    cuts = [cut(cutter) for _ in range(2)]
    assert [list(made.events["rare"]) for made in cuts] == [[], ["a", "b"]]


class Between(IterableSource):
    """Can be read while an epoch is committed; how many events came so each time."""

    def reader(self) -> SourceReader:
        made = super().reader()
        made.reads_ahead, self.ahead = True, list[int]()

        def poll_ahead(rows: int) -> int:
            self.ahead.append(made.poll(rows, 0.0))
            return self.ahead[-1]

        made.poll_ahead = poll_ahead  # type: ignore[method-assign]
        return made


def never() -> bool:
    return False


def test_what_is_read_ahead_is_in_the_next_epoch_which_is_no_larger_for_it() -> None:
    source = Between(range(25))
    cutter = cutter_of(source, rows=10)
    cuts: list[tuple[list[int], str]] = []
    for _ in range(3):
        cutter.read_ahead(never)
        cutter.read_ahead(never)
        made = cutter.next(never, lambda: None, until_end=True)
        assert made is not None
        cuts.append(([*made.events["values"]], made.sources[0].end))
    assert cuts == [(list(range(10)), "10"), (list(range(10, 20)), "20"), (list(range(20, 25)), "25")]
    assert source.ahead == [9, 9, 5, 0, 0]  # one of an epoch is left for who cuts it


def test_an_epoch_that_is_cut_by_time_takes_what_is_read_ahead_and_what_has_come_since() -> None:
    values = [0, 1]
    source = Between(values)
    cutter = Cutter([Input(source, None)], EpochTrigger(seconds=0.0))
    cutter.seek([])
    cutter.read_ahead(never)
    assert source.ahead == [2, 0]
    values += [2]
    assert cut(cutter).events == {"values": [0, 1, 2]}


def test_reading_ahead_ends_when_the_epoch_does() -> None:
    source = Between(range(10))
    cutter_of(source, rows=10).read_ahead(lambda: True)
    assert source.ahead == []


def test_it_ends_after_any_turn_and_each_source_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "AHEAD_ROWS", 3)
    busy, other = Between(range(1000), name="busy"), Between(range(4), name="other")
    cutter_of(busy, other, rows=100).read_ahead(after(2))
    assert (busy.ahead, other.ahead) == ([3, 3], [3, 1])


def test_the_events_of_an_epoch_are_handed_over_once() -> None:
    made = cut(cutter_of(IterableSource(range(3)), rows=3))
    assert made.take() == {"values": [0, 1, 2]}
    with pytest.raises(StateMachineError, match="twice"):
        made.take()


def test_what_was_read_ahead_is_read_again_where_the_sources_are_sought() -> None:
    cutter = cutter_of(Between(range(20)), rows=10)
    cutter.read_ahead(never)
    cutter.seek([])
    assert cut(cutter).events == {"values": list(range(10))}


def test_beside_a_source_that_cannot_be_read_ahead_none_is() -> None:
    busy = Between(range(1000), name="busy")
    cutter_of(busy, IterableSource("ab", name="rare"), rows=10).read_ahead(never)
    assert busy.ahead == []


def test_of_several_that_are_read_ahead_each_gets_its_turn() -> None:
    busy, rare = Between(range(1000), name="busy"), Between("ab", name="rare")
    cutter = cutter_of(busy, rare, rows=10)
    cuts = []
    for _ in range(2):
        cutter.read_ahead(never)
        cuts.append(list(cut(cutter).events["rare"]))
    assert cuts == [[], ["a", "b"]]
    assert (busy.ahead, rare.ahead) == ([9, 7], [2])


class Ahead(IterableSource):
    """Without events; a cut would move its position as often as it is told to."""

    moves = 0

    def reader(self) -> SourceReader:
        made = super().reader()
        made.is_ahead = lambda: self.moves > 0  # type: ignore[method-assign]
        honest = made.cut

        def moved() -> list[Part]:
            self.moves -= 1
            return honest()

        made.cut = moved  # type: ignore[method-assign]
        return made


def test_a_position_that_moved_without_events_is_recorded_once_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = Ahead([])
    cutter = cutter_of(source, rows=2)
    source.moves = 1
    assert cutter.next(after(9), lambda: None, until_end=False) is None
    monkeypatch.setattr(cutting, "QUIET_S", 0.0)
    assert cut(cutter).came == 0
    assert cutter.next(after(9), lambda: None, until_end=False) is None


def test_a_run_to_the_end_records_it_as_its_last_epoch() -> None:
    source = Ahead([])
    cutter = cutter_of(source, rows=2)
    source.moves = 1
    made = cutter.next(after(9), lambda: None, until_end=True)
    assert made is not None and made.came == 0
    assert cutter.next(after(9), lambda: None, until_end=True) is None


class Clicks(IterableSource):
    """Of a topic `clicks` with so many partitions."""

    def __init__(self, name: str, partitions: int) -> None:
        super().__init__(range(1), name=name)
        self.partitions = partitions

    def reader(self) -> SourceReader:
        made = super().reader()
        made.partitions = lambda: {"clicks": self.partitions}  # type: ignore[method-assign]
        return made


def test_topics_of_one_name_in_two_clusters_are_two_topics(tmp_path: Path) -> None:
    def begin(east: int, west: int) -> None:
        inputs = [Input(Clicks("east", east), None), Input(Clicks("west", west), None)]
        cutter = Cutter(inputs, EpochTrigger(events=1), TopicPartitions(tmp_path))
        cutter.seek([])
        cut(cutter)  # counts are noted with the first events, not before

    with pytest.raises(ConfigurationError, match="'clicks' of source 'east' has 4, 'clicks' of source 'west' has 6"):
        begin(4, 6)
    begin(6, 6)
    with pytest.raises(ConfigurationError, match="'clicks' of source 'east' has 4 partitions, and had 6"):
        begin(4, 6)
