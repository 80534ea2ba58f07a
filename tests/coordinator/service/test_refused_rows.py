"""Rows that a sink refuses, as dead letters: the event that made them leaves nothing, in no sink and in no state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tpc
from tests.coordinator.service import refused_row_program
from tests.coordinator.service.program import Die
from tests.coordinator.service.refused_row_program import (
    MOST,
    WAYS,
    BoundedSink,
    BoundedValidator,
    LateSink,
    Sizes,
    events_of,
    expected,
)
from tests.support.each_step import each_step
from tpc.coordinator.service.reading_ahead import ReadingAhead
from tpc.errors import DataError
from tpc.sinks import FileSink
from tpc.sources import IterableSource

STEPS = ("pass.open", "pass.prepared", "epoch.prepared", "log.stored", "epoch.decided", "sink.committed")


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    runs=st.lists(
        st.tuples(st.lists(st.sampled_from([*WAYS, "good", "good"]), min_size=1, max_size=8), st.integers(1, 9)),
        min_size=1,
        max_size=3,
    )
)
@example(runs=[(["good", "odd", "good"], 3)])
@example(runs=[(["good", "odd", "good"], 1)])
@example(runs=[(["odd", "raises", "decode", "odd"], 4)])
def test_rows_and_dead_letters_are_the_same_wherever_epochs_are_cut(runs: Sequence[tuple[list[str], int]]) -> None:
    """Each run has events of its own and cuts them otherwise; what one leaves behind would show in the counts."""
    with TemporaryDirectory() as place:
        sizes, events = Sizes(Path(place)), list[dict[str, Any]]()
        for hows, every in runs:
            came = events_of(hows, len(events))
            events += came
            sizes.write(came)
            sizes.run(every=every)
        assert sizes.made() == expected(events)


def test_a_dead_letter_names_the_sink_and_the_event(tmp_path: Path) -> None:
    sizes = Sizes(tmp_path)
    sizes.write(events_of(["good", "odd", "good"]))
    sizes.run()
    [row] = sizes.rows("dead")
    second = len(sizes.file.read_bytes().splitlines()[0]) + 1
    assert row["function"] == "sink sizes"
    assert row["position"] == f"file {sizes.file}, byte {second}"
    assert row["error"] == "DataError"
    assert "is above 1000" in row["reason"]
    [epoch] = sizes.history()
    assert epoch["sinks"]["dead"]["rows"] == 1


def test_without_a_refused_row_nothing_is_computed_twice_and_no_sink_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("rows are validated")

    monkeypatch.setattr(BoundedSink, "validator", never)
    sizes = Sizes(tmp_path)
    sizes.write(events_of(["good", "raises", "decode"] * 4))
    sizes.run()
    assert sizes.made() == expected(events_of(["good", "raises", "decode"] * 4))


@pytest.mark.parametrize("step", each_step(STEPS))
def test_a_death_at_any_step_loses_and_doubles_nothing(step: str, tmp_path: Path) -> None:
    events = events_of(["good", "odd", "good", "raises", "odd"] * 3)
    sizes = Sizes(tmp_path)
    sizes.write(events)

    def dies(at: str, where: Mapping[str, Any]) -> None:
        if (where.get("epoch") == 1 and where.get("attempt") != 0) or (where.get("kind"), where.get("slot")) == (
            "intent",
            4,
        ):
            raise Die(at)

    with pytest.raises(Die):
        sizes.run(every=5, actions={step: dies})
    sizes.run(every=5)
    assert sizes.made() == expected(events)
    assert {row["status"] for row in sizes.history()} == {"complete"}


@pytest.mark.parametrize("lost", ["dead", "sizes", "counts"])
def test_a_lost_branch_is_written_again_without_what_its_sinks_refuse(lost: str, tmp_path: Path) -> None:
    events = events_of(["good", "odd", "raises", "good", "decode", "odd", "good"] * 2)
    sizes = Sizes(tmp_path)
    sizes.write(events)

    def lose(step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 1:
            staged = sizes.staged(lost)
            assert staged
            for path in staged:
                path.unlink()
            raise Die(step)

    with pytest.raises(Die):
        sizes.run(every=7, actions={"epoch.decided": lose})
    sizes.run(every=7)
    assert sizes.made() == expected(events)
    assert {row["status"] for row in sizes.history()} == {"complete"}


def test_a_decided_epoch_that_a_sink_judges_otherwise_now_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a column was altered in between: nothing is lost or doubled, and it says what to look at."""
    sizes = Sizes(tmp_path)
    sizes.write(events_of(["good", "odd", "good"]))

    def lose(step: str, where: Mapping[str, Any]) -> None:
        for path in sizes.staged("counts"):
            path.unlink()
        raise Die(step)

    with pytest.raises(Die):
        sizes.run(actions={"epoch.decided": lose})
    with monkeypatch.context() as altered:
        altered.setattr(BoundedValidator, "validate", lambda *_: None)
        with pytest.raises(tpc.TpcError) as met:
            sizes.run()
    assert sizes.rows("counts") == []
    assert "made other rows" in met.value.what
    sizes.run()
    assert sizes.made() == expected(events_of(["good", "odd", "good"]))


def test_what_a_sink_refuses_of_a_decided_epoch_without_dead_letters_ends_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had taken the row: a dead letter would be another decision than the one on record."""
    sizes = Sizes(tmp_path)
    sizes.write(events_of(["good"] * 3))

    def lose(step: str, where: Mapping[str, Any]) -> None:
        for path in sizes.staged("sizes"):
            path.unlink()
        raise Die(step)

    with pytest.raises(Die):
        sizes.run(actions={"epoch.decided": lose})
    with monkeypatch.context() as altered:
        altered.setattr(refused_row_program, "MOST", 1)
        with pytest.raises(DataError, match="the size 2 is above 1"):
            sizes.run()
    sizes.run()
    assert sizes.made() == expected(events_of(["good"] * 3))


def test_a_sink_that_refuses_when_all_is_written_is_asked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next events are being read by then: that is begun once in an epoch."""
    begun, begin = list[ReadingAhead](), ReadingAhead.begin

    def counted(ahead: ReadingAhead) -> None:
        begun.append(ahead)
        begin(ahead)

    monkeypatch.setattr(ReadingAhead, "begin", counted)
    sizes, events = Sizes(tmp_path), events_of(["good", "odd", "good"] * 4)
    sizes.sink_class = LateSink
    sizes.write(events)
    sizes.run(every=3)
    assert sizes.made() == expected(events)
    assert len(begun) == len(set(begun)) == 4


def test_too_many_refused_rows_end_the_service(tmp_path: Path) -> None:
    sizes = Sizes(tmp_path, max_share=0.1, at_least=5)
    sizes.write(events_of((["good"] * 4 + ["odd"]) * 20))
    with pytest.raises(DataError, match=r"would make 6 dead letters.*sink sizes at file"):
        sizes.run(every=10)
    assert len(sizes.rows("dead")) < 5


def test_events_that_cannot_be_read_again_are_checked_at_once(tmp_path: Path) -> None:
    service = tpc.service("numbers", directory=tmp_path / "service")
    service.each(service.read(IterableSource(range(6), name="numbers")))(
        lambda n, out: out.row("sizes", {"n": n, "size": n if n != 4 else MOST + n})
    )
    service.write("sizes", {"n": int, "size": int}).to(BoundedSink(tmp_path / "sizes", name="sizes"))
    service.dead_letters_to(FileSink(tmp_path / "dead", name="dead"), max_share=1.0)
    service.run(until_end=True)
    assert [row["position"] for row in Sizes(tmp_path).rows("dead")] == ["value 4"]
    assert Sizes(tmp_path).made()[1] == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("how", ["each_batch", "at_cut"])
def test_a_row_that_is_no_event_s_ends_the_service(how: str, tmp_path: Path) -> None:
    service = tpc.service("numbers", directory=tmp_path / "service")
    numbers = service.read(IterableSource(range(3), name="numbers"))
    service.each(numbers)(lambda n, out: None)
    odd = {"n": 1, "size": MOST + 1}
    if how == "at_cut":
        service.at_cut(lambda out: out.row("sizes", odd))
    else:
        service.each_batch(numbers)(lambda events, out: out.row("sizes", odd))
    service.write("sizes", {"n": int, "size": int}).to(BoundedSink(tmp_path / "sizes", name="sizes"))
    service.dead_letters_to(FileSink(tmp_path / "dead", name="dead"), max_share=1.0)
    with pytest.raises(DataError, match=f"above {MOST}"):
        service.run(until_end=True)
