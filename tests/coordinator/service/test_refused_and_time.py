"""Refused events and event time: what a refused event did is undone, and its time counts, wherever epochs are cut.

A run with refused events makes what a run makes in which those that a function refuses have their time and do nothing,
and those that `time=` refuses are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tpc
from tests.coordinator.service.test_cut_and_time import TTL_MS, WORK, Happened
from tpc.errors import DataError
from tpc.handles import Handle
from tpc.sinks import FileSink
from tpc.source import Part, Source, SourceReader


class Came(NamedTuple):
    """An event of one partition: what it does, and by what it is refused, if it is."""

    partition: int
    does: Happened
    refused: str = ""


class Partitions(Source):
    """So many partitions, whose events come in this order. Its reader can decode again, or cannot."""

    kind = "partitions"
    start_varies = False

    def __init__(self, came: Sequence[Came], partitions: int, *, is_fresh_again: bool) -> None:
        super().__init__("partitions")
        self.came, self.partitions, self.is_fresh_again = came, partitions, is_fresh_again

    def reader(self) -> SourceReader:
        return Reader(self)


class Reader(SourceReader):
    def __init__(self, source: Partitions) -> None:
        self.source, self.start, self.end = source, 0, 0

    def seek(self, position: str | None) -> None:
        self.start = self.end = int(position or 0)

    def position(self) -> str:
        return str(self.start)

    def poll(self, rows: int, timeout_s: float) -> int:
        before, self.end = self.end, min(self.end + rows, len(self.source.came))
        return self.end - before

    def cut(self) -> list[Part]:
        taken, self.start = self.source.came[self.start : self.end], self.end
        of_each = [[each for each in taken if each.partition == number] for number in range(self.source.partitions)]
        return [self.part(came, number) for number, came in enumerate(of_each)]

    def part(self, came: Sequence[Came], number: int) -> Part:
        again = partial(self.part, came, number) if self.source.is_fresh_again else None
        is_ended = all(each.partition != number for each in self.source.came[self.end :])
        return Part(str(number), list(came), is_ended, again=again)

    def read_to(self, end: str, timeout_s: float) -> list[Part]:
        self.end = int(end)
        return self.cut()

    def is_exhausted(self) -> bool:
        return self.end == len(self.source.came)

    def close(self) -> None:
        pass


def unkept(state: Any, event: Happened) -> None:
    state[event.key] = [object()]


def fails(state: Any, event: Happened) -> None:
    state.get(event.key, []).append(8)
    state["new"] = [9]
    raise ValueError(event)


def clears(state: Any, event: Happened) -> None:
    state.clear()
    fails(state, event)


def takes(state: Any, event: Happened) -> None:
    if state:
        state.popitem()
    fails(state, event)


REFUSED: dict[str, Callable[[Any, Happened], None]] = {
    "raises": fails,
    "clears": clears,
    "takes": takes,
    "unkept": unkept,
}


def made(
    directory: Path,
    epochs: Sequence[Sequence[Came]],
    partitions: int,
    *,
    kind: Any,
    is_fresh_again: bool,
    has_letters: bool,
) -> list[dict[str, Any]]:
    """The rows of these epochs, with a restart after each, and of looks that show when what is held ends."""
    looks = [Came(0, Happened("a", "look_at_all", at)) for at in range(1_000, 1_000 + 2 * TTL_MS, 50)]
    came: list[Came] = []
    for epoch in [*epochs, looks]:
        came += epoch
        service = tpc.service("refused", directory=directory / "service")
        source = service.read(Partitions(came, partitions, is_fresh_again=is_fresh_again), time=time_of)
        state: Any = service.state("held", kind, ttl=tpc.seconds(TTL_MS / 1000))
        service.each(source)(partial(work, state))
        service.write("rows", {"event": str, "seen": str}).to(FileSink(directory / "rows", name="rows"))
        if has_letters:
            service.dead_letters_to(FileSink(directory / "dead", name="dead"), max_share=1.0)
        service.run(every=1 if epoch is looks else 100, until_end=True)
    files = sorted((directory / "rows").glob("*.parquet"), key=lambda path: Handle.parse(path.stem).epoch)
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def time_of(event: Came) -> int:
    """Of one that has none it is beyond all years, or it is the first of no times: a `StopIteration`."""
    if event.refused != "time":
        return event.does.time_ms
    return -(10**30) if event.does.time_ms % 2 else next(iter(list[int]()))


def work(state: Any, event: Came, out: Any) -> None:
    if event.does.does != "nothing":
        out.row("rows", {"event": str(event), "seen": str(WORK[event.does.does](state, event.does))})
    if event.refused:
        REFUSED[event.refused](state, event.does)


def without(epoch: Sequence[Came]) -> list[Came]:
    """The same events, of which those that are refused have their time, if they have one, and nothing else."""
    timed = [each for each in epoch if each.refused != "time"]
    return [Came(each.partition, each.does._replace(does="nothing")) if each.refused else each for each in timed]


happened = st.builds(Happened, st.sampled_from("ab"), st.sampled_from([*WORK]), st.integers(0, 1_000))
refused = st.sampled_from([*REFUSED, "time", "", "", "", "", ""])
epochs_of_events = st.lists(
    st.lists(st.builds(Came, st.integers(0, 1), happened, refused), min_size=1, max_size=7), min_size=1, max_size=3
)


def _one(*steps: tuple[str, str, int, str]) -> list[list[Came]]:
    return [[Came(0, Happened(key, does, at), refused) for key, does, at, refused in steps]]


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(epochs=epochs_of_events, kind=st.sampled_from([dict, "disk"]), is_fresh_again=st.booleans())
# A partition of which nothing had a time holds nothing back once it is read.
@example(
    epochs=[
        [
            Came(0, Happened("a", "add", 0), "raises"),
            Came(0, Happened("a", "add", 0)),
            Came(1, Happened("a", "add", 0), "time"),
        ]
    ],
    kind=dict,
    is_fresh_again=False,
)
# What a refused event wrote at an early time would end before what an earlier epoch left under that key does.
@example(
    epochs=[
        *_one(("a", "put", 600, "")),
        *_one(("a", "put", 100, "raises"), ("b", "add", 650, ""), ("a", "look", 660, "")),
    ],
    kind=dict,
    is_fresh_again=True,
)
# What has ended before a refused event, which was the first to look, stays ended.
@example(
    epochs=_one(
        ("a", "add", 0, ""), ("b", "look", 400, ""), ("a", "look", 401, "raises"), ("a", "look_at_all", 402, "")
    ),
    kind=dict,
    is_fresh_again=True,
)
# A value that cannot be kept, and has ended at once, is gone before anything looks at it.
@example(
    epochs=[
        *_one(("a", "add", 305, "raises")),
        *_one(("a", "add", 0, "unkept"), ("a", "add", 0, "")),
    ],
    kind=dict,
    is_fresh_again=True,
)
# A refused event brings the watermark on, one without a time does not.
@example(
    epochs=_one(("a", "add", 0, ""), ("b", "look", 400, "raises"), ("a", "look", 401, ""), ("a", "look", 999, "time")),
    kind="disk",
    is_fresh_again=False,
)
def test_a_refused_event_has_a_time_and_has_done_nothing(
    epochs: list[list[Came]], kind: Any, is_fresh_again: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    count = 1 + max(each.partition for epoch in epochs for each in epoch)
    with_letters = made(
        tmp_path_factory.mktemp("one"), epochs, count, kind=kind, is_fresh_again=is_fresh_again, has_letters=True
    )
    others = list(map(without, epochs))
    assert with_letters == made(
        tmp_path_factory.mktemp("other"), others, count, kind=dict, is_fresh_again=True, has_letters=False
    )


def caught(state: Any, key: Any) -> None:
    """A function that goes on whatever it meets."""
    with suppress(Exception):
        state.get(key)
    state[key] = [1]


def popped(state: Any, key: Any) -> None:
    if state:
        state.popitem()


GOES: dict[str, Callable[[Any, Any], object]] = {
    "replaced": lambda state, key: state.update({key: [1]}),
    "removed": lambda state, key: state.pop(key, None),
    "cleared": lambda state, key: state.clear(),
    "popped": popped,
    "met by a function that goes on": caught,
}


@pytest.mark.slow
@pytest.mark.parametrize("ttl", [None, tpc.seconds(1)], ids=["for ever", "with an end"])
@pytest.mark.parametrize("key", ["a", ("a", 1)], ids=["text", "tuple"])
@pytest.mark.parametrize("how", GOES)
@pytest.mark.parametrize("value", [[object()], 10**5000], ids=["an object", "a number of too many digits"])
def test_a_value_that_cannot_be_kept_refuses_its_event_though_it_is_gone_before_the_cut(
    ttl: Any, key: Any, how: str, value: Any, tmp_path: Path
) -> None:
    service = tpc.service("refused", directory=tmp_path / "service")
    events = [Came(0, Happened("a", "unkept", 1)), Came(0, Happened("a", "goes", 2))]
    source = service.read(Partitions(events, 1, is_fresh_again=True), time=time_of)
    state: Any = service.state("held", ttl=ttl)

    @service.each(source)
    def function(event: Came, out: Any) -> None:
        out.row("rows", {"does": event.does.does})
        if event.does.does == "unkept":
            state[key] = value
        else:
            GOES[how](state, key)

    rows, dead = (FileSink(tmp_path / name, name=name) for name in ("rows", "dead"))
    service.write("rows", {"does": str}).to(rows)
    service.dead_letters_to(dead, max_share=1.0)
    service.run(every=10, until_end=True)
    written = {name: pq.read_table(tmp_path / name).to_pylist() for name in ("rows", "dead")}
    assert written["rows"] == [{"does": "goes"}]
    assert len(written["dead"]) == 1


def met(kept: tpc.Transactional[Any]) -> None:
    with suppress(Exception):
        kept.value.append(1)
    kept.value = [1]


REPLACES: dict[str, Callable[[tpc.Transactional[Any]], object]] = {
    "replaced": lambda kept: setattr(kept, "value", [1]),
    "met by a function that goes on": met,
}


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 10], ids=["an epoch each", "one epoch"])
@pytest.mark.parametrize("how", REPLACES)
@pytest.mark.parametrize("is_in_place", [False, True], ids=["put", "in place"])
def test_an_object_that_cannot_be_kept_refuses_its_event_though_it_is_replaced_before_the_cut(
    is_in_place: bool, how: str, every: int, tmp_path: Path
) -> None:
    service = tpc.service("refused", directory=tmp_path / "service")
    events = [Came(0, Happened("a", "unkept", 1)), Came(0, Happened("a", "goes", 2))]
    source = service.read(Partitions(events, 1, is_fresh_again=True))
    kept = service.keep("held", tpc.make_transactional(list[Any]()))

    @service.each(source)
    def function(event: Came, out: Any) -> None:
        out.row("rows", {"does": event.does.does})
        if event.does.does != "unkept":
            REPLACES[how](kept)
        elif is_in_place:
            kept.value.append(lambda: None)
        else:
            kept.value = [lambda: None]

    rows, dead = (FileSink(tmp_path / name, name=name) for name in ("rows", "dead"))
    service.write("rows", {"does": str}).to(rows)
    service.dead_letters_to(dead, max_share=1.0)
    service.run(every=every, until_end=True)
    written = {name: pq.read_table(tmp_path / name).to_pylist() for name in ("rows", "dead")}
    assert written["rows"] == [{"does": "goes"}]
    assert len(written["dead"]) == 1


@pytest.mark.parametrize("is_fresh_again", [True, False])
def test_a_value_that_an_event_leaves_is_not_the_refusal_of_the_one_that_meets_it(
    is_fresh_again: bool, tmp_path: Path
) -> None:
    """With a time to live the next event that names the key meets it first."""
    service = tpc.service("refused", directory=tmp_path / "service")
    epoch = _one(("a", "put", 10, ""), ("a", "put", 20, "unkept"), ("a", "look", 30, ""))[0]
    source = service.read(Partitions(epoch, 1, is_fresh_again=is_fresh_again), time=time_of)
    state: Any = service.state("held", ttl=tpc.seconds(1))
    service.each(source)(partial(work, state))
    service.write("rows", {"event": str, "seen": str}).to(FileSink(tmp_path / "rows", name="rows"))
    with pytest.raises(DataError, match="cannot be kept") as met:
        service.run(every=10, until_end=True)
    position = met.value.position
    if is_fresh_again:
        assert position == "partition 0, event 1 of the cut between 0 and 3"
    else:  # which it was is not known
        assert "event 0 of" in str(position)
        assert "event 2 of" in str(position)
