"""Sources of one's own that break the contract end the service with their name; no event is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
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
    start_varies = False

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
        self.origin: Any = Origin("here")
        self.origin_again: Callable[[int], Any] = lambda _: self.origin
        self.parts: Callable[[list[Part]], Any] = lambda parts: parts
        self.moves: Callable[[int], int] = lambda end: end
        self.bytes: Any = None

    def seek(self, position: str | None) -> None:
        self.start = self.end = int(position or 0)

    def position(self) -> str:
        return self.told(str(self.start))  # type: ignore[no-any-return]

    def poll(self, rows: int, timeout_s: float) -> int:
        before, self.end = self.end, min(self.end + rows, len(VALUES))
        self.end = max(before, self.moves(self.end))
        return self.polled(self.end - before)  # type: ignore[no-any-return]

    def polled_bytes(self) -> int | None:
        return self.bytes  # type: ignore[no-any-return]

    def cut(self) -> list[Part]:
        events, self.start = VALUES[self.start : self.end], self.end
        again = partial(self.part_again, events)
        part = Part("", events, self.is_exhausted(), origin=lambda _: self.origin, again=again)
        return self.parts([part])  # type: ignore[no-any-return]

    def part_again(self, events: list[int]) -> Part:
        return Part(self.name_again, self.events_again(events), self.is_exhausted(), origin=self.origin_again)

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


@pytest.mark.parametrize("position", ["half of \ud800", "\udc80"])
def test_a_position_that_cannot_be_stored_is_refused(tmp_path: Path, position: str) -> None:
    with pytest.raises(ConfigurationError, match=r"answers position\(\) with .*, a text that cannot be stored"):
        run(tmp_path, lambda reader: setattr(reader, "told", lambda at: position + at))


def test_more_events_than_were_asked_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="answers a poll for 5 events at most with 20"):
        run(tmp_path, lambda reader: setattr(reader, "moves", lambda _: len(VALUES)))
    assert written(tmp_path, "rows") == []


def test_events_that_no_poll_has_counted_do_not_stay_unread_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="hands out 20 events of source 'values' at its end"):
        run(tmp_path, lambda reader: setattr(reader, "polled", lambda _: 0))


def test_counted_events_that_a_cut_does_not_have_are_refused(tmp_path: Path) -> None:
    """One epoch without events would come after the other."""

    def change(reader: Reader) -> None:
        reader.moves, reader.polled = lambda _: 0, lambda _: 5

    with pytest.raises(ConfigurationError, match="has counted 5 events in its polls, hands out none of source"):
        run(tmp_path, change)


@pytest.mark.parametrize("parts", [None, (), [None], [[1, 2]], "parts"], ids=repr)
def test_a_cut_that_is_no_list_of_parts_is_refused(tmp_path: Path, parts: object) -> None:
    with pytest.raises(ConfigurationError, match=r"answers cut\(\) with .*, which is no list of"):
        run(tmp_path, lambda reader: setattr(reader, "parts", lambda _: parts))


@pytest.mark.parametrize(
    "other",
    [
        lambda index: Origin(f"there {index}"),
        lambda index: Origin("here", key=b"k"),
        lambda index: Origin("here", value=b"other") if index == 3 else Origin("here"),
        lambda index: None,
    ],
    ids=["position", "key", "value of one", "none"],
)
def test_events_of_other_origins_when_a_part_is_given_again_are_refused(
    tmp_path: Path, other: Callable[[int], Origin | None]
) -> None:
    with pytest.raises(ConfigurationError, match=r"Part\.again of source 'values' gives as event [03] "):
        run(tmp_path, lambda reader: setattr(reader, "origin_again", other), refused=[7])
    assert [row["n"] for row in written(tmp_path, "rows")] == VALUES[:5]


@pytest.mark.parametrize("answer", [None, 5, [Part("", [], False)]], ids=["none", "number", "list"])
def test_an_answer_that_is_no_part_when_one_is_given_again_is_refused(tmp_path: Path, answer: object) -> None:
    with pytest.raises(
        ConfigurationError, match=r"Part\.again of source 'values' gives .*, which is no tpc.source.Part"
    ):
        run(tmp_path, lambda reader: setattr(reader, "part_again", lambda _: answer), refused=[7])


@pytest.mark.parametrize("origin", [None, 5, "here", Origin(5), Origin(None), Origin(b"x")], ids=repr)  # type: ignore[arg-type]
def test_what_is_no_origin_is_replaced_by_the_place_in_the_cut(tmp_path: Path, origin: object) -> None:
    run(tmp_path, lambda reader: setattr(reader, "origin", origin), refused=[7])
    assert [row["n"] for row in written(tmp_path, "rows")] == [n for n in VALUES if n != 7]
    assert {letter["position"] for letter in written(tmp_path, "dead")} == {"event 2 of the cut between 5 and 10"}


@pytest.mark.parametrize(
    ("origin", "left_out"),
    [
        (Origin("here", "k", b"v"), "key"),  # type: ignore[arg-type]
        (Origin("here", b"k", 5), "value"),  # type: ignore[arg-type]
        (Origin("here", "k", "v"), "key and value"),  # type: ignore[arg-type]
        (Origin("here", b"k", bytearray(b"v")), "value"),  # type: ignore[arg-type]
    ],
)
def test_raw_keys_and_values_that_are_no_bytes_are_left_out_and_told(
    tmp_path: Path, origin: Origin, left_out: str
) -> None:
    run(tmp_path, lambda reader: setattr(reader, "origin", origin), refused=[7])
    for letter in written(tmp_path, "dead"):
        assert letter["position"] == f"here (its source says a raw {left_out} that is no bytes)"
        assert (letter["raw_key"] is None) == ("key" in left_out)
        assert (letter["raw_value"] is None) == ("value" in left_out)


@pytest.mark.parametrize("again", [lambda events: events[1:], lambda events: [*events, 99], lambda _: []])
def test_other_events_when_a_part_is_given_again_are_refused(
    tmp_path: Path, again: Callable[[list[int]], list[int]]
) -> None:
    """They would take the place of those of the cut, once one of these is refused."""
    with pytest.raises(ConfigurationError, match=r"Part\.again of source 'values' gives \d events"):
        run(tmp_path, lambda reader: setattr(reader, "events_again", again), refused=[7])
    assert [row["n"] for row in written(tmp_path, "rows")] == VALUES[:5]


def test_a_part_of_another_name_when_it_is_given_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="gives 5 events of partition 'other'; the cut"):
        run(tmp_path, lambda reader: setattr(reader, "name_again", "other"), refused=[7])


@pytest.mark.parametrize("position", ["half of \ud800", "a\0b", "x" * 5000])
def test_a_dead_letter_has_any_position_that_a_source_tells(tmp_path: Path, position: str) -> None:
    run(tmp_path, lambda reader: setattr(reader, "origin", Origin(position)), refused=[7])
    assert [row["n"] for row in written(tmp_path, "rows")] == [n for n in VALUES if n != 7]
    letters = written(tmp_path, "dead")
    assert len(letters) == 2
    assert all(0 < len(letter["position"]) <= 1010 for letter in letters)


def test_a_share_of_one_sets_no_bound_where_two_functions_refuse_one_event(tmp_path: Path) -> None:
    run(tmp_path, lambda _: None, refused=VALUES, max_share=1.0, at_least=1)
    assert len(written(tmp_path, "dead")) == 2 * len(VALUES)


@pytest.mark.parametrize("known", [-1, True, 1.5, "many"])
def test_a_size_of_what_was_polled_that_is_no_number_of_bytes_is_refused(tmp_path: Path, known: Any) -> None:
    def change(reader: Reader) -> None:
        reader.bytes = known

    with pytest.raises(ConfigurationError, match=r"answers polled_bytes\(\) with .* which is no number of bytes"):
        run(tmp_path, change)


@pytest.mark.parametrize("known", [None, 0, 7])
def test_a_source_may_say_how_many_bytes_it_has_polled_or_nothing(tmp_path: Path, known: int | None) -> None:
    def change(reader: Reader) -> None:
        reader.bytes = known

    run(tmp_path, change)
    assert sorted(row["n"] for row in written(tmp_path, "rows")) == VALUES
