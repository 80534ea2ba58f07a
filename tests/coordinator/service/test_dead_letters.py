"""Events that a program refuses, as dead letters: exactly once, with their epoch, and nothing of their work is kept."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tpc
from tests.coordinator.service.dead_letter_program import WAYS, Letters
from tests.coordinator.service.program import Die, Numbers
from tests.support.each_step import each_step
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.service.computing import EventGuard
from tpc.errors import ConfigurationError, DataError, TransientError
from tpc.manifest import Manifest
from tpc.sources import IterableSource

STEPS = ("pass.prepared", "epoch.prepared", "log.stored", "epoch.decided", "sink.committed", "epoch.completed")


def events_of(hows: Sequence[str], first: int = 0) -> list[dict[str, Any]]:
    return [{"n": n, "key": "abc"[n % 3], "how": how} for n, how in enumerate(hows, first)]


def made(letters: Letters) -> tuple[list[dict[str, Any]], ...]:
    return letters.written("rows"), letters.written("totals")


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    hows=st.lists(st.sampled_from([*WAYS, *["fine"] * len(WAYS)]), min_size=1, max_size=24),
    every=st.sampled_from([3, 8, 100]),
    kind=st.sampled_from([dict, "disk"]),
)
@example(
    hows=[*["decode"] * 3, "fine", "early", *["decode"] * 4, "early", "early"], every=3, kind=dict
)  # ends in a cut
def test_what_is_made_is_what_would_be_made_if_refused_events_did_nothing(
    hows: list[str], every: int, kind: Any
) -> None:
    """Of everything: rows, batches, states of keys that expire or do not, whole objects, and event time."""
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        letters, without = Letters(Path(one)), Letters(Path(other))
        letters.write(events_of(hows))
        without.write(events_of([how if how in ("fine", "decode", "time") else "nothing" for how in hows]))
        for each in (letters, without):
            each.run(every=every, kind=kind)
        assert made(letters) == made(without)
        refused = [Letters.line(event)[:-1].encode() for event in events_of(hows) if event["how"] != "fine"]
        assert letters.dead() == Counter(refused)
        assert set(without.dead()) <= {line for line in refused if b"time" in line or b"broken" in line}


def test_a_dead_letter_says_which_event_and_why(tmp_path: Path) -> None:
    letters = Letters(tmp_path)
    letters.write(events_of(["fine", "decode", "time", "early", "row"]))
    letters.run()
    lines = letters.file.read_bytes().splitlines()
    places = [sum(len(line) + 1 for line in lines[:index]) for index in range(5)]
    rows = letters.written("dead")
    assert [row["position"] for row in rows] == [f"file {letters.file}, byte {place}" for place in places[1:]]
    assert [row["error"] for row in rows] == ["JSONDecodeError", "ValueError", "Refuses", "DataError"]
    assert [row["raw_value"] for row in rows] == lines[1:]
    assert {row["source"] for row in rows} == {"lines"}
    assert [row["raw_key"] for row in rows] == [None] * 4
    assert rows[0]["function"] == "decode"
    assert rows[2]["reason"] == "1"
    assert rows[2]["function"].endswith("counted")
    assert "have no column 'm'" in rows[3]["reason"]


def test_they_are_counted_as_the_rows_of_any_sink(tmp_path: Path) -> None:
    letters = Letters(tmp_path)
    letters.write(events_of(["fine", "late", "decode"]))
    letters.run()
    [epoch] = letters.history()
    assert epoch["rows"] == 3
    assert epoch["sinks"]["dead"]["rows"] == 2


def test_an_epoch_of_refused_events_alone_moves_the_position(tmp_path: Path) -> None:
    letters = Letters(tmp_path)
    letters.write(events_of(["decode"] * 5))
    letters.run()
    letters.write(events_of(["fine"], first=5))
    letters.run()
    assert letters.dead() == Counter({b"{broken": 5})
    assert len(letters.history()) == 2


@pytest.mark.parametrize("step", each_step(STEPS))
def test_a_death_at_any_step_loses_and_doubles_no_dead_letter(step: str, tmp_path: Path) -> None:
    letters, without = Letters(tmp_path / "one"), Letters(tmp_path / "other")
    for each in (letters, without):
        each.directory.mkdir()
        each.write(events_of(["fine", "late", "row", "decode", "fine"] * 4))

    def dies(at: str, where: Mapping[str, Any]) -> None:
        if where.get("epoch") == 1 or (where.get("kind"), where.get("slot")) == ("intent", 4):
            raise Die(at)

    with pytest.raises(Die):
        letters.run(every=5, actions={step: dies})
    letters.run(every=5)
    without.run(every=5)
    assert letters.dead() == without.dead()
    assert sum(letters.dead().values()) == 12
    assert made(letters) == made(without)
    assert {row["status"] for row in letters.history()} == {"complete"}


@pytest.mark.parametrize("lost", ["dead", "rows"])
def test_a_lost_branch_is_written_again_with_the_same_dead_letters(lost: str, tmp_path: Path) -> None:
    """The text of an exception is another one in the second run: what it says of the event may be."""
    letters, without = Letters(tmp_path / "one"), Letters(tmp_path / "other")
    for each in (letters, without):
        each.directory.mkdir()
        each.write(events_of(["fine", "late", "early", "decode", "time", "state", "fine"] * 3))
        each.options = {"max_share": 0.9}

    def lose(step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == 1:
            staged = letters.staged(lost)
            assert staged
            for path in staged:
                path.unlink()
            raise Die(step)

    with pytest.raises(Die):
        letters.run(every=7, actions={"epoch.decided": lose})
    letters.options = {"max_share": 0.0, "at_least": 1}  # of a decided epoch they are as many as they are
    with pytest.raises(DataError, match=r"would make \d+ dead letters"):
        letters.run(every=7)
    letters.options = {"max_share": 1.0}
    letters.run(every=7)
    without.run(every=7)
    assert letters.dead() == without.dead()
    assert made(letters) == made(without)
    assert {row["status"] for row in letters.history()} == {"complete"}


def test_without_a_refused_event_no_function_is_run_twice_and_nothing_is_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("an epoch is guarded")

    letters = Letters(tmp_path)
    letters.write(events_of(["fine", "decode", "time"] * 5))
    monkeypatch.setattr(EventGuard, "run", never)
    letters.run()
    assert len(letters.written("rows")) == 10


# Which errors are the event's ---------------------------------------------------------------------------------------


def service_of(directory: Path, function: Any, values: Any = range(30), **options: Any) -> tpc.Service:
    service = tpc.service("numbers", directory=directory / "service")
    service.each(service.read(IterableSource(values, name="numbers")))(function)
    service.write("rows", {"n": int}).to(Numbers(directory).sink("even"))
    service.dead_letters_to(Numbers(directory).sink("dead"), **options)
    return service


@pytest.mark.parametrize(
    "own",
    [
        TransientError("registry"),
        MemoryError(),
        pa.ArrowMemoryError("realloc of size 64 failed"),
        SystemError("returned NULL"),
        RuntimeError("can't start new thread"),
        OSError(errno.EMFILE, "Too many open files"),
        OSError(errno.ENOSPC, "No space left on device"),
        ConfigurationError("mistaken"),
        SystemExit(3),
    ],
)
def test_what_concerns_the_run_is_no_dead_letter(own: BaseException, tmp_path: Path) -> None:
    def fails(event: int, out: Any) -> None:
        raise own

    with pytest.raises(type(own)):
        service_of(tmp_path, fails).run(until_end=True)
    assert Numbers(tmp_path).history() == []


def test_a_function_of_batches_still_ends_the_service(tmp_path: Path) -> None:
    service = tpc.service("numbers", directory=tmp_path / "service")
    service.each_batch(service.read(IterableSource(range(3))))(lambda events, out: 1 // 0)
    service.write("rows", {"n": int}).to(Numbers(tmp_path).sink("even"))
    service.dead_letters_to(Numbers(tmp_path).sink("dead"))
    with pytest.raises(DataError, match=r"3 events at value 0 to value 2.*is never a dead letter"):
        service.run(until_end=True)


def test_each_function_refuses_for_itself(tmp_path: Path) -> None:
    service = service_of(tmp_path, lambda event, out: out.row("rows", {"n": event // (event != 3)}))
    service.write("others", {"n": int}).to(Numbers(tmp_path).sink("odd"))
    numbers = service._inputs[0]
    service.each(numbers)(lambda event, out: out.row("others", {"n": event}))
    service.run(until_end=True)
    assert Numbers(tmp_path).written("even") == [n for n in range(30) if n != 3]
    assert Numbers(tmp_path).written("odd") == list(range(30))


def test_events_that_a_source_cannot_decode_again_are_run_once(tmp_path: Path) -> None:
    """They may have been changed in place, so that a second run would meet other events."""
    events = [{"n": n} for n in range(10)]

    def pops(event: dict[str, int], out: Any) -> None:
        out.row("rows", {"n": event.pop("n") if event["n"] != 4 else 1 // 0})

    service_of(tmp_path, pops, events, max_share=1.0).run(until_end=True)
    assert Numbers(tmp_path).written("even") == [n for n in range(10) if n != 4]
    dead = Letters(tmp_path).written("dead")
    assert [(row["position"], row["raw_value"]) for row in dead] == [("value 4", None)]


# How many there may be ----------------------------------------------------------------------------------------------


def refuses(share: int) -> Any:
    def function(event: int, out: Any) -> None:
        out.row("rows", {"n": event if event % share else event // 0})

    return function


@pytest.mark.parametrize("every", [10, 1000, 7])
def test_too_many_end_the_service_however_epochs_are_cut(every: int, tmp_path: Path) -> None:
    values = range(1000)
    with pytest.raises(DataError, match=r"the last \d+ events would make \d+ dead letters.*ZeroDivisionError") as met:
        service_of(tmp_path, refuses(5), values).run(every=every, until_end=True)
    assert "max_share=1.0" in str(met.value.remedy)
    dead = len(Letters(tmp_path).written("dead"))
    assert dead < 100
    assert "is not decided" in met.value.safe


def test_a_restart_does_not_begin_to_count_again(tmp_path: Path) -> None:
    for _ in range(3):
        with pytest.raises(DataError, match=r"would make \d+ dead letters"):
            service_of(tmp_path, refuses(5), range(1000)).run(every=10, until_end=True)
        assert len(Letters(tmp_path).written("dead")) < 100
    service_of(tmp_path, lambda event, out: out.row("rows", {"n": event}), range(1000)).run(until_end=True)
    assert {row["status"] for row in Numbers(tmp_path).history()} == {"complete"}


def shared(directory: Path, **options: Any) -> tpc.Service:
    """Its dead letters go to the sink of its rows."""
    service = tpc.service("numbers", directory=directory / "service")
    sink = Numbers(directory).sink("even")

    @service.each(service.read(IterableSource(range(1000), name="numbers")))
    def placed(event: int, out: Any) -> None:
        out.row("rows", {"position": str(event if event % 20 else event // 0)})

    service.write("rows", {"position": str}).to(sink)
    service.dead_letters_to(sink, select=["position"], **options)
    return service


@pytest.mark.parametrize("every", [10, 250])
def test_rows_of_a_sink_that_both_go_to_are_no_dead_letters(every: int, tmp_path: Path) -> None:
    """50 events of 1,000 are refused: a twentieth."""
    shared(tmp_path, max_share=0.1, at_least=20).run(every=every, until_end=True)
    assert len(Letters(tmp_path).written("even")) == 1000
    manifests = Journal(shared(tmp_path).log).open().manifests.values()
    assert sum(manifest.counts["dead_letters"] for manifest in manifests) == 50


def test_too_many_end_the_service_where_both_go_to_one_sink(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"would make \d+ dead letters"):
        shared(tmp_path, max_share=0.04, at_least=20).run(every=10, until_end=True)


def test_an_epoch_that_does_not_say_how_many_it_has_has_as_many_as_its_sink_has_rows(tmp_path: Path) -> None:
    """One of before this was counted."""
    service_of(tmp_path, refuses(5), range(100)).run(every=50, until_end=True)
    service = service_of(tmp_path, refuses(5), range(100))
    letters, manifests = service._program().dead_letters, Journal(service.log).open().manifests.values()
    assert letters is not None
    assert [letters.count_in(each) for each in manifests] == [10, 10]
    before = [Manifest.from_json({**each.to_json(), "counts": {"rows": 50}}) for each in manifests]
    assert [letters.count_in(each) for each in before] == [10, 10]


@pytest.mark.parametrize("options", [{"max_share": 0.2}, {"at_least": 201}, {"max_share": 1.0, "at_least": 1}])
def test_as_many_as_are_allowed_do_not(options: dict[str, Any], tmp_path: Path) -> None:
    values = list(range(1, 1001))
    service_of(tmp_path, refuses(5), values, **options).run(every=1000, until_end=True)
    assert len(Letters(tmp_path).written("dead")) == 200


@pytest.mark.parametrize(
    "options", [{"max_share": -0.1}, {"max_share": 1.1}, {"at_least": 0}, {"max_share": float("nan")}]
)
def test_bounds_that_say_nothing_are_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="max_share is from 0 to 1"):
        service_of(tmp_path, refuses(5), **options)


def test_they_go_to_one_sink_and_their_kind_is_theirs(tmp_path: Path) -> None:
    service = service_of(tmp_path, refuses(5))
    with pytest.raises(ConfigurationError, match="dead letters go to one sink"):
        service.dead_letters_to(Numbers(tmp_path).sink("other"))
    with pytest.raises(ConfigurationError, match="dead letters"):
        service.write("dead letters", {"n": int})


UNKEPT: dict[str, Callable[[Any, Any], object]] = {
    "written": lambda state, kept: state.update(x=object()),
    "in place": lambda state, kept: state.setdefault("x", []).append(object()),
    "object": lambda state, kept: kept.value.append(lambda: None),
}
READS: dict[str, Callable[[Any, Any], object]] = {
    "get": lambda state, kept: (state.get("x"), kept.value),
    "values": lambda state, kept: ([*state.values()], kept.value),
    "as an error of its own": lambda state, kept: _wrapped(lambda: (state.get("x"), kept.value)),
}


def _wrapped(read: Callable[[], object]) -> None:
    try:
        read()
    except Exception as error:
        raise ValueError("this event is wrong") from error


@pytest.mark.parametrize("ttl", [None, tpc.seconds(1000)])
@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("left", UNKEPT)
def test_an_event_that_meets_what_a_function_of_batches_has_left_is_no_dead_letter(
    left: str, reads: str, ttl: Any, tmp_path: Path
) -> None:
    """Even if the value is replaced later on, so that the epoch could be cut."""
    service = tpc.service("numbers", directory=tmp_path / "service")
    numbers = service.read(IterableSource(range(10), name="numbers"), time=lambda n: n)
    state, kept = service.state("state", ttl=ttl), service.keep("kept", tpc.make_transactional(list[Any]()))
    service.each_batch(numbers)(lambda events, out: UNKEPT[left](state, kept) and None)

    @service.each(numbers)
    def read(event: int, out: Any) -> None:
        if event == 3:
            raise LookupError(event)
        if event == 5:
            READS[reads](state, kept)
        if event == 9:
            state["x"] = 9
            kept.value = []

    service.dead_letters_to(Numbers(tmp_path).sink("dead"), max_share=1.0)
    with pytest.raises(DataError, match="cannot be kept"):
        service.run(until_end=True)
    assert Letters(tmp_path).written("dead") == []


@pytest.mark.parametrize("left", UNKEPT)
def test_an_event_that_leaves_what_cannot_be_kept_and_meets_it_is_a_dead_letter(left: str, tmp_path: Path) -> None:
    service = tpc.service("numbers", directory=tmp_path / "service")
    numbers = service.read(IterableSource(range(10), name="numbers"), time=lambda n: n)
    state, kept = (
        service.state("state", ttl=tpc.seconds(1000)),
        service.keep("kept", tpc.make_transactional(list[Any]())),
    )

    @service.each(numbers)
    def leaves(event: int, out: Any) -> None:
        if event == 3:
            UNKEPT[left](state, kept)
            READS["get"](state, kept)

    service.dead_letters_to(Numbers(tmp_path).sink("dead"), max_share=1.0)
    service.run(until_end=True)
    assert [row["position"] for row in Letters(tmp_path).written("dead")] == ["value 3"]
