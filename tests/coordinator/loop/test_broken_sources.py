"""Sources of one's own that break the contract end the service with their name; no event is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tpc
from tpc.errors import ConfigurationError
from tpc.sinks import FileSink
from tpc.source import Origin, Part, Source, SourceReader

Change = Callable[["Reader"], None]
VALUES = list(range(20))


class Values(Source):
    """Twenty numbers, by a reader that `change` has broken."""

    kind = "values"
    begins_anew = False

    def __init__(self, change: Change) -> None:
        super().__init__("values")
        self.change = change

    def reader(self) -> SourceReader:
        reader = Reader()
        self.change(reader)
        return reader


class Reader(SourceReader):
    def __init__(self) -> None:
        self.start = self.end = 0
        self.told: Callable[[str], Any] = lambda position: position
        self.polled: Callable[[int], Any] = lambda rows: rows
        self.events_again: Callable[[list[int]], list[int]] = lambda events: events
        self.name_again = ""
        self.origin = Origin("here")

    def seek(self, position: str | None) -> None:
        self.start = self.end = int(position or 0)

    def position(self) -> str:
        return self.told(str(self.start))  # type: ignore[no-any-return]

    def poll(self, rows: int, timeout_s: float) -> int:
        before, self.end = self.end, min(self.end + rows, len(VALUES))
        return self.polled(self.end - before)  # type: ignore[no-any-return]

    def cut(self) -> list[Part]:
        events, self.start = VALUES[self.start : self.end], self.end
        return [
            Part("", events, self.is_exhausted(), origin=lambda _: self.origin, again=lambda: self.part_again(events))
        ]

    def part_again(self, events: list[int]) -> Part:
        return Part(self.name_again, self.events_again(events), self.is_exhausted(), origin=lambda _: self.origin)

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        self.end = int(end)
        return self.cut()

    def is_exhausted(self) -> bool:
        return self.end == len(VALUES)

    def close(self) -> None:
        """It holds nothing."""


def run(directory: Path, change: Change, *, refused: Container[int] = (), **options: Any) -> None:
    service = tpc.service("broken", directory=directory / "service")
    values = service.read(Values(change))

    @service.each(values)
    def kept(value: int, out: Any) -> None:
        if value in refused:
            raise ValueError(value)
        out.row("rows", {"n": value})

    @service.each(values)
    def looked(value: int, out: Any) -> None:
        if value in refused:
            raise ValueError(value)

    service.write("rows", {"n": int}).to(FileSink(directory / "rows", name="rows"))
    service.dead_letters_to(FileSink(directory / "dead", name="dead"), **options)
    service.run(every=5, until_end=True)


def written(directory: Path, sink: str) -> list[dict[str, Any]]:
    return [row for path in sorted((directory / sink).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


@pytest.mark.parametrize("position", [lambda _: "0", lambda _: "7"], ids=["at the beginning", "elsewhere"])
def test_a_position_that_stays_though_events_were_cut_is_refused(
    tmp_path: Path, position: Callable[[str], str]
) -> None:
    """A restart would read them again."""
    with pytest.raises(ConfigurationError, match=r"Reader has handed out 5 events of source 'values' and stays at"):
        run(tmp_path, lambda reader: setattr(reader, "told", position))
    assert written(tmp_path, "rows") == []


@pytest.mark.parametrize("position", [None, 5, b"5"])
def test_a_position_that_is_no_text_is_refused(tmp_path: Path, position: object) -> None:
    with pytest.raises(ConfigurationError, match=r"answers position\(\) with .*, which is no text"):
        run(tmp_path, lambda reader: setattr(reader, "told", lambda _: position))
    assert written(tmp_path, "rows") == []


@pytest.mark.parametrize("rows", [None, -1, 2.0, True, "5"])
def test_an_answer_to_a_poll_that_is_no_number_of_events_is_refused(tmp_path: Path, rows: object) -> None:
    with pytest.raises(ConfigurationError, match=r"answers a poll with .*, which is no number of events"):
        run(tmp_path, lambda reader: setattr(reader, "polled", lambda _: rows))


@pytest.mark.parametrize("again", [lambda events: events[1:], lambda events: [*events, 99], lambda _: []])
def test_other_events_when_a_part_is_given_again_are_refused(
    tmp_path: Path, again: Callable[[list[int]], list[int]]
) -> None:
    """They would take the place of those of the cut, once one of these is refused."""
    with pytest.raises(ConfigurationError, match=r"Part\.again of source 'values' gives \d events"):
        run(tmp_path, lambda reader: setattr(reader, "events_again", again), refused=[7])
    assert [row["n"] for row in written(tmp_path, "rows")] == VALUES[:5]


def test_a_part_of_another_name_when_it_is_given_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="gives 5 events of other"):
        run(tmp_path, lambda reader: setattr(reader, "name_again", "other"), refused=[7])


@pytest.mark.parametrize("position", ["half of \ud800", "a\0b", "x" * 5000])
def test_a_dead_letter_has_any_position_that_a_source_tells(tmp_path: Path, position: str) -> None:
    run(tmp_path, lambda reader: setattr(reader, "origin", Origin(position)), refused=[7])
    assert [row["n"] for row in written(tmp_path, "rows")] == [n for n in VALUES if n != 7]
    letters = written(tmp_path, "dead")
    assert len(letters) == 2
    assert all(0 < len(letter["position"]) <= 1000 for letter in letters)


def test_a_share_of_one_sets_no_bound_where_two_functions_refuse_one_event(tmp_path: Path) -> None:
    run(tmp_path, lambda _: None, refused=VALUES, max_share=1.0, at_least=1)
    assert len(written(tmp_path, "dead")) == 2 * len(VALUES)
