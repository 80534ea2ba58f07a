"""An error of an event says which it was: source, position, function, epoch, cause, what is safe and what to do."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpc
from tests.coordinator.service.program import Numbers
from tpc.errors import ConfigurationError, DataError, TransientError
from tpc.source import Part, Source, SourceReader
from tpc.sources import IterableSource, LinesSource

LINES = [f'{{"n": {n}}}\n' for n in range(30)]


def place_of(directory: Path, index: int) -> str:
    return f"file {directory / 'lines'}, byte {sum(map(len, LINES[:index]))}"


class Program:
    """Reads `LINES` but for one line, by functions of which one fails."""

    def __init__(self, directory: Path, *, line: int = 17, text: str | None = None) -> None:
        self.directory = directory
        lines = [*LINES[:line], LINES[line] if text is None else text, *LINES[line + 1 :]]
        (directory / "lines").write_text("".join(lines))
        self.service = tpc.service("lines", directory=directory / "service")
        self.kept = self.service.state("sums")

    def read(self, decode: Callable[[bytes], Any] = json.loads, time: Any = None) -> Any:
        return self.service.read(LinesSource(self.directory / "lines", decode=decode), time=time)

    def refused(self, **options: Any) -> DataError:
        self.service.write("rows", {"n": int}).to(Numbers(self.directory).sink("even"), **options)
        with pytest.raises(DataError) as met:
            self.service.run(every=10, until_end=True)
        assert "epoch 1 is not decided" in met.value.safe
        assert met.value.remedy
        assert met.value.epoch == 1
        assert Numbers(self.directory).written("even") == list(range(10))
        again = pickle.loads(pickle.dumps(met.value))
        assert (again.source, again.position, again.function) == (
            met.value.source,
            met.value.position,
            met.value.function,
        )
        return met.value


def as_row(event: Mapping[str, Any], out: Any) -> None:
    out.row("rows", event)


def test_a_message_that_decode_refuses(tmp_path: Path) -> None:
    program = Program(tmp_path, text='{"n": \n')
    program.service.each(program.read())(as_row)
    error = program.refused()
    assert (error.source, error.position, error.function) == ("lines", place_of(tmp_path, 17), "decode")
    assert isinstance(error.__cause__, json.JSONDecodeError)


def test_an_event_of_which_its_time_fails(tmp_path: Path) -> None:
    program = Program(tmp_path, text='{"m": 1}\n')
    program.service.each(program.read(time=lambda event: event["n"]))(as_row)
    error = program.refused()
    assert error.position == place_of(tmp_path, 17)
    assert str(error.function).startswith("time= ")
    assert isinstance(error.__cause__, KeyError)


@pytest.mark.parametrize("time", [1.5, "17", None, True, float("nan"), object()])
def test_a_time_that_is_no_whole_number(time: object, tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.service.each(program.read(time=lambda event: time if event["n"] == 17 else event["n"]))(as_row)
    error = program.refused()
    assert error.position == place_of(tmp_path, 17)
    assert "event time is a whole number of milliseconds" in str(error)


def test_a_whole_number_of_numpy_is_a_time(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.service.each(program.read(time=lambda event: np.int64(event["n"])))(as_row)
    program.service.write("rows", {"n": int}).to(Numbers(tmp_path).sink("even"))
    program.service.run(every=10, until_end=True)
    assert Numbers(tmp_path).written("even") == list(range(30))


@pytest.mark.parametrize("ttl", [None, tpc.seconds(10)])
def test_an_event_that_a_function_refuses(ttl: Any, tmp_path: Path) -> None:
    program = Program(tmp_path, text='{"m": 1}\n')
    program.service.state("expiring", ttl=ttl)

    @program.service.each(program.read(time=lambda event: 1))
    def counted(event: dict[str, int], out: Any) -> None:
        out.row("rows", {"n": event["n"]})

    error = program.refused()
    assert error.position == place_of(tmp_path, 17)
    assert "counted" in str(error.function)
    assert isinstance(error.__cause__, KeyError)


def test_in_a_long_epoch_it_is_the_event_at_hand(tmp_path: Path) -> None:
    service = tpc.service("numbers", directory=tmp_path / "service")

    @service.each(service.read(IterableSource(range(5000))))
    def checked(number: int, out: Any) -> None:
        assert number != 2047
        out.row("rows", {"n": number})

    service.write("rows", {"n": int}).to(Numbers(tmp_path).sink("even"))
    with pytest.raises(DataError, match="value 2047 of"):
        service.run(until_end=True)


@pytest.mark.parametrize("bad", [{"n": "x"}, {"m": 1}, ["n"], None, {1: 2}])
def test_a_row_that_cannot_become_columns_is_of_an_event(bad: Any, tmp_path: Path) -> None:
    program = Program(tmp_path)

    @program.service.each(program.read())
    def changed(event: dict[str, int], out: Any) -> None:
        out.row("rows", bad if event.pop("n") == 17 else {"n": 1} | event)  # a function may change its event

    program.service.write("rows", {"n": int}).to(Numbers(tmp_path).sink("even"))
    with pytest.raises(DataError) as met:
        program.service.run(every=10, until_end=True)
    assert met.value.position == place_of(tmp_path, 17)
    assert "changed" in str(met.value.function)


def test_a_row_of_an_event_before_a_batch_is_not_the_batch_s(tmp_path: Path) -> None:
    import pyarrow as pa

    program = Program(tmp_path)

    @program.service.each(program.read())
    def mixed(event: dict[str, Any], out: Any) -> None:
        out.row("rows", {"n": "x" if event["n"] == 17 else event["n"]})
        if event["n"] == 19:
            out.batch("rows", pa.record_batch({"n": pa.array([1])}))

    assert program.refused().position == place_of(tmp_path, 17)


def test_a_value_that_a_state_cannot_keep_is_of_an_event(tmp_path: Path) -> None:
    program = Program(tmp_path)

    @program.service.each(program.read())
    def counted(event: dict[str, int], out: Any) -> None:
        program.kept[f"k{event['n']}"] = np.float64(1.5) if event["n"] == 17 else 1.5
        out.row("rows", event)

    assert program.refused().position == place_of(tmp_path, 17)


def test_a_function_of_batches_is_told_the_range(tmp_path: Path) -> None:
    program = Program(tmp_path, text='{"m": 17}\n')
    program.service.each_batch(program.read())(lambda events, out: [out.row("rows", {"n": e["n"]}) for e in events])
    error = program.refused()
    assert error.position == f"{place_of(tmp_path, 10)} to {place_of(tmp_path, 19)}"
    assert "10 events" in str(error)


def test_a_row_of_a_function_of_batches_is_told_with_it(tmp_path: Path) -> None:
    program = Program(tmp_path, text='{"n":"x"}\n')
    program.service.each_batch(program.read())(lambda events, out: out.rows("rows", events))
    error = program.refused()
    assert error.position == f"{place_of(tmp_path, 10)} to {place_of(tmp_path, 19)}"
    assert error.column == "n"


def test_a_function_of_the_cut_is_told_the_range(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.service.each(program.read())(as_row)
    program.service.at_cut(lambda out: None if out.epoch == 0 else 1 // 0)
    error = program.refused()
    assert error.position == f"{place_of(tmp_path, 10)} to {place_of(tmp_path, 19)}"
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_a_condition_that_fails_names_the_row(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.service.each(program.read())(as_row)
    error = program.refused(where=lambda row: 1 // (17 - row["n"]) < 9)
    assert "{'n': 17}" in str(error)
    assert (error.source, error.position) == ("lines", "between 90 and 190")


class Hostile(dict[str, Any]):
    def __repr__(self) -> str:
        raise RuntimeError("a repr that fails")


class UnsaidError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("a text that fails")


@pytest.mark.parametrize(
    "raised", [UnsaidError(), ValueError("\ud800\0"), ValueError("x" * 10_000_000), StopIteration(1)]
)
def test_describing_an_event_never_raises(raised: Exception, tmp_path: Path) -> None:
    program = Program(tmp_path)

    @program.service.each(program.read(lambda line: Hostile(json.loads(line))))
    def refuses(event: Any, out: Any) -> None:
        if event["n"] == 17:
            raise raised
        out.row("rows", {"n": event["n"]})

    error = program.refused()
    assert error.position == place_of(tmp_path, 17)
    assert len(str(error).encode()) < 2_000


@pytest.mark.parametrize("own", [TransientError("registry"), ConfigurationError("mistaken"), MemoryError("full")])
def test_what_concerns_the_run_and_not_the_event_stays_what_it_is(own: Exception, tmp_path: Path) -> None:
    program = Program(tmp_path)

    @program.service.each(program.read())
    def fails(event: Any, out: Any) -> None:
        raise own

    program.service.write("rows", {"n": int}).to(Numbers(tmp_path).sink("even"))
    with pytest.raises(type(own)) as met:
        program.service.run(until_end=True)
    assert met.value is own


class Bare(Source):
    """A source of one's own, which says nothing of its events."""

    start_varies = False

    def reader(self) -> SourceReader:
        reader = IterableSource(list(range(30))).reader()
        cut = reader.cut

        def without_origins() -> list[Part]:
            return [Part("p1", part.events, part.is_ended) for part in cut()]

        reader.cut = without_origins  # type: ignore[method-assign]
        return reader


def test_an_event_of_a_source_that_says_no_more_is_named_by_its_place_in_the_cut(tmp_path: Path) -> None:
    program = Program(tmp_path)

    @program.service.each(program.service.read(Bare("own")))
    def refuses(event: int, out: Any) -> None:
        out.row("rows", {"n": event if event != 17 else 1 // 0})

    assert program.refused().position == "partition p1, event 7 of the cut between 10 and 20"


def test_a_row_of_such_a_source_is_told_with_the_range_since_its_events_may_have_changed(tmp_path: Path) -> None:
    program = Program(tmp_path)
    calls: list[int] = []

    @program.service.each(program.service.read(Bare("own")))
    def refuses(event: int, out: Any) -> None:
        calls.append(event)
        out.row("rows", {"n": event if event != 17 else "x"})

    cut = "of the cut between 10 and 20"
    assert program.refused().position == f"partition p1, event 0 {cut} to partition p1, event 9 {cut}"
    assert calls == list(range(20))
