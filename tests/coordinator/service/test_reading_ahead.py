"""Events of the next epoch are read while one is committed; what that meets is raised, and never in the middle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator.service.program import Die, Numbers, die
from tests.support.processes import eventually
from tpc.coordinator.service.reading_ahead import ReadingAhead
from tpc.errors import StateLostError, TransientError
from tpc.source import SourceReader
from tpc.sources import IterableSource

STEPS = ("pass.prepared", "epoch.prepared", "epoch.decided", "sink.committed", "epoch.committed")


class Between(IterableSource):
    """May be read while an epoch is committed; the readers that it has given."""

    def __init__(self, values: Callable[[], Iterable[Any]]) -> None:
        super().__init__(values, name="numbers")
        self.readers: list[SourceReader] = []

    def reader(self) -> SourceReader:
        made = super().reader()
        made.reads_ahead = True
        self.readers.append(made)
        return made


class NumbersAhead(Numbers):
    """A service that reads ahead."""

    def source(self) -> Between:
        self.read_from = Between(lambda: self.values)
        return self.read_from

    def is_ahead(self) -> bool:
        """Whether anything is taken in that is not cut."""
        reader: Any = self.read_from.readers[-1]
        return bool(reader._polled)


def goes_on() -> bool:
    return False


def is_stopped() -> bool:
    return True


def away(_is_over: Callable[[], bool]) -> None:
    raise TransientError("partition 0 cannot be read")


def lost(_is_over: Callable[[], bool]) -> None:
    raise StateLostError("the topic was recreated")


def test_it_reads_beside_the_epoch_and_has_ended_with_it() -> None:
    reading, ended = threading.Event(), list[str]()

    def read(is_over: Callable[[], bool]) -> None:
        reading.set()
        eventually(is_over, "the epoch has ended")
        ended.append(threading.current_thread().name)

    with ReadingAhead(read, goes_on) as ahead:
        assert not reading.is_set()
        ahead.begin()
        ahead.begin()
        assert reading.wait(10.0)
        assert ended == []
    assert ended == ["tpc-reading-ahead"]


def test_what_it_meets_is_raised_when_the_epoch_has_ended() -> None:
    steps = []
    with pytest.raises(StateLostError, match="recreated"), ReadingAhead(lost, goes_on) as ahead:
        ahead.begin()
        steps.append("committed")
    assert steps == ["committed"]


def test_of_an_epoch_that_fails_its_own_error_is_raised_and_the_other_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZeroDivisionError), ReadingAhead(lost, goes_on) as ahead:
        ahead.begin()
        raise ZeroDivisionError
    assert "recreated" in caplog.text


def test_a_service_that_is_asked_to_stop_does_not_end_in_what_may_pass(caplog: pytest.LogCaptureFixture) -> None:
    with ReadingAhead(away, is_stopped) as ahead:
        ahead.begin()
    assert "partition 0 cannot be read" in caplog.text
    with pytest.raises(StateLostError), ReadingAhead(lost, is_stopped) as ahead:
        ahead.begin()


def test_without_a_thread_to_be_had_the_epoch_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with ReadingAhead(lost, goes_on) as ahead:
        ahead.begin()


def test_whoever_interrupts_the_end_still_waits_for_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, ended, goes = threading.Event(), list[str](), threading.Event()

    def read(_is_over: Callable[[], bool]) -> None:
        reading.set()
        goes.wait(10.0)
        ended.append("read")

    with pytest.raises(KeyboardInterrupt), ReadingAhead(read, goes_on) as ahead:
        ahead.begin()
        assert reading.wait(10.0)
        ended_with = ahead._background._ended
        honest = ended_with.wait

        def interrupted(timeout: float | None = None) -> bool:
            if timeout is None:
                goes.set()
                raise KeyboardInterrupt
            return honest(timeout)

        monkeypatch.setattr(ended_with, "wait", interrupted)
    assert ended == ["read"]


@pytest.mark.parametrize(
    "step", ["pass.prepared", "epoch.prepared", "epoch.decided", "sink.committed", "epoch.committed"]
)
def test_a_death_with_events_of_the_next_epoch_taken_in_loses_and_doubles_nothing(step: str, tmp_path: Path) -> None:
    numbers = NumbersAhead(tmp_path, 300)

    def die_ahead(at: str, where: Mapping[str, Any]) -> None:
        eventually(numbers.is_ahead, "the next epoch's events are read")
        die(at, where)

    with pytest.raises(Die):
        numbers.run_with({step: die_ahead})
    numbers.run(every=70)
    assert numbers.is_right()
    assert {row["status"] for row in numbers.history()} == {"complete"}


def test_no_function_sees_an_event_before_the_epoch_before_it_is_complete(tmp_path: Path) -> None:
    numbers, seen = NumbersAhead(tmp_path, 300), list[str]()

    def text_of(number: int) -> str:
        seen.append("event")
        return str(number)

    def complete(at: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] < 2:
            eventually(numbers.is_ahead, "the next epoch's events are read")
        seen.append("complete")

    numbers.text_of = text_of
    numbers.run_with({"epoch.completed": complete})
    assert seen == [*["event"] * 100, "complete"] * 3
    assert numbers.is_right()


def test_a_loss_that_is_met_ahead_ends_the_run_with_its_epoch_complete(tmp_path: Path) -> None:
    numbers = NumbersAhead(tmp_path, 300)
    made = numbers.source

    def met(_rows: int) -> int:
        raise StateLostError("the topic was recreated")

    class Losing(Between):
        def reader(self) -> SourceReader:
            reader = super().reader()
            reader.poll_ahead = met  # type: ignore[method-assign,assignment]
            return reader

    numbers.source = lambda: Losing(lambda: numbers.values)  # type: ignore[method-assign]
    with pytest.raises(StateLostError, match="recreated"):
        numbers.run()
    assert [(row["epoch"], row["status"]) for row in numbers.history()] == [(0, "complete")]
    numbers.source = made  # type: ignore[method-assign]
    numbers.run()
    assert numbers.is_right()


def test_an_epoch_without_it_ends_as_any() -> None:
    with ReadingAhead(lost, goes_on):
        pass
