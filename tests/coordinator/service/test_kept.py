"""A whole object of a service: decided, lost, repaired and refused with the epoch, like a state of keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import tpc
from tests.coordinator.service.kept_program import Learned, Model
from tests.coordinator.service.program import STEPS, Die
from tests.support.each_step import each_step
from tpc.coordinator.kernel.epochs import epoch_rows
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.service.state import StateSink
from tpc.coordinator.service.state.changes import rests_on
from tpc.coordinator.service.state.rules import NO_EPOCH
from tpc.errors import ConfigurationError, DataError, DeterminismError, StateMachineError
from tpc.handles import PipelineId
from tpc.sinks import FileSink
from tpc.sources import IterableSource

DEATHS = ("epoch.planned", *STEPS)


def log_of(directory: Path) -> LocalLog:
    return LocalLog(directory / "service" / "tpc" / "log")


@pytest.mark.slow
@pytest.mark.parametrize("step", each_step(DEATHS))
def test_a_kill_at_any_step_leaves_the_object_and_the_rows_at_one_epoch(step: str, tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=100)
    learned.run()
    learned.values += range(100, 300)
    learned.killed(step)
    learned.run(every=40)
    assert learned.written() == learned.expected()
    assert learned.model.value.seen == learned.values


def lose_out(learned: Learned, epoch: int) -> None:
    """Run until `epoch` is decided, and die there; what the files have prepared of it disappears."""

    def lose(step: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == epoch:
            for path in (learned.directory / "out").rglob("*.parquet"):
                if path.parent != learned.directory / "out":
                    path.unlink()
            raise Die(step)

    with pytest.raises(Die):
        learned.run(actions={"epoch.decided": lose})


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_lost_branch_is_written_again_with_the_object_before_its_epoch(epoch: int, tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=120)
    lose_out(learned, epoch)
    learned.values += range(120, 200)
    learned.run(every=9)
    assert learned.written() == learned.expected()
    log = log_of(tmp_path)
    assert b'"repair"' in b"".join(log.read(slot) for slot in log.slots())


def test_a_repair_that_comes_to_another_object_is_refused(tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=120)
    lose_out(learned, 1)

    def other(model: Model, number: int) -> int:
        answer = model.learn(number)
        model.seen[-1] = -1  # the rows are the same
        return answer

    learned.learn = other
    with pytest.raises(DeterminismError):
        learned.run()


def test_the_first_epoch_stores_the_object_so_that_a_program_with_another_one_goes_on_with_it(tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=1)
    learned.learn = lambda model, number: 0  # changes nothing
    learned.run()
    learned.start, learned.learn = 1000, Model.learn
    learned.values += [5]
    learned.run()
    assert learned.model.value.total == 5


def test_an_epoch_that_only_looks_at_the_object_stores_nothing_of_it(tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=100)
    learned.learn = lambda model, number: model.total
    learned.run(every=25)
    epochs = epoch_rows(Journal(log_of(tmp_path)).open())
    assert [epoch["sinks"].get("model", {"rows": 0})["rows"] for epoch in epochs] == [1, 0, 0, 0]


def test_what_cannot_be_read_back_is_refused_before_the_decision(tmp_path: Path) -> None:
    service = tpc.service("odd", directory=tmp_path / "service")
    numbers = service.read(IterableSource([1, 2]))

    def loads(data: bytes) -> int:
        if data == b"3":
            raise ValueError("no threes")
        return int(data)

    kept = service.keep("sum", tpc.make_transactional(0, dumps=lambda one: str(one).encode(), loads=loads))

    @service.each(numbers)
    def taken(number: int, out: Any) -> None:
        kept.value += number
        out.row("rows", {"n": number})

    service.write("rows", {"n": int}).to(FileSink(tmp_path / "out", name="out"))
    with pytest.raises(DataError, match="cannot be kept: ValueError: no threes") as refused:
        service.run(every=1, until_end=True)
    assert refused.value.sink == "sum"
    assert refused.value.epoch == 1
    assert kept.value == 1
    assert Journal(log_of(tmp_path)).open().last_intent == 0


def test_bytes_that_the_program_cannot_read_any_more_stop_the_start_and_change_nothing(tmp_path: Path) -> None:
    def run(loads: Any) -> None:
        service = tpc.service("odd", directory=tmp_path / "service")
        numbers = service.read(IterableSource([1, 2]))
        kept = service.keep("sum", tpc.make_transactional(0, dumps=lambda one: str(one).encode(), loads=loads))

        @service.each(numbers)
        def taken(number: int, out: Any) -> None:
            kept.value += number
            out.row("rows", {"n": number})

        service.write("rows", {"n": int}).to(FileSink(tmp_path / "out", name="out"))
        service.run(until_end=True)

    run(int)
    with pytest.raises(ConfigurationError, match=r"stored in 1 bytes that `loads` cannot read: KeyError"):
        run(lambda data: {b"0": 0}[data])
    run(int)


@pytest.mark.parametrize("first", ["state", "keep"])
def test_a_state_of_keys_and_an_object_are_not_taken_for_each_other(first: str, tmp_path: Path) -> None:
    def run(which: str) -> None:
        service = tpc.service("both", directory=tmp_path / "service")
        numbers = service.read(IterableSource([1, 2]))
        kept: Any = service.state("one") if which == "state" else service.keep("one", tpc.make_transactional({}))

        @service.each(numbers)
        def taken(number: int, out: Any) -> None:
            (kept if which == "state" else kept.value)["last"] = number
            out.row("rows", {"n": number})

        service.write("rows", {"n": int}).to(FileSink(tmp_path / "out", name="out"))
        service.run(until_end=True)

    run(first)
    with pytest.raises(ConfigurationError, match=r"the store of 'one' holds"):
        run("keep" if first == "state" else "state")


def test_outside_of_an_epoch_there_are_copies_only(tmp_path: Path) -> None:
    learned = Learned(tmp_path, numbers=10)
    learned.run()
    learned.model.value.seen.clear()
    assert learned.model.value.seen == learned.values
    with pytest.raises(StateMachineError, match="outside of an epoch"):
        learned.model.value = Model()


def test_one_object_is_kept_under_one_name(tmp_path: Path) -> None:
    service = tpc.service("twice", directory=tmp_path)
    made = service.keep("one", tpc.make_transactional(Model()))
    with pytest.raises(ConfigurationError, match="kept as 'one' already"):
        service.keep("other", made)


def test_what_cannot_be_made_bytes_is_refused_where_it_is_made_transactional() -> None:
    with pytest.raises(ConfigurationError, match=r"a function cannot be made transactional: .*lambda"):
        tpc.make_transactional(lambda: 0)
    with pytest.raises(ConfigurationError, match=r"`dumps` returned a str, not bytes"):
        tpc.make_transactional(0, dumps=str, loads=int)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="belong together"):
        tpc.make_transactional(0, dumps=lambda one: str(one).encode())


def test_an_aborted_epoch_is_gone_from_memory_and_the_next_rests_on_what_was_decided(tmp_path: Path) -> None:
    made = tpc.make_transactional(Model())
    sink = StateSink("model", tmp_path / "state")
    kept = sink.kept(PipelineId("learned"), made)
    kept.restore()
    for epoch in (0, 0):
        kept.begin(epoch)
        assert made.value.seen == []
        made.value.learn(7)
        assert (kept.changes().num_rows, rests_on(kept.changes())) == (1, NO_EPOCH)
        kept.abandon()
    kept.begin(0)
    made.value.learn(8)
    kept.changes()
    kept.begin(1)  # so epoch 0 is decided
    assert made.value.seen == [8]
    assert rests_on(kept.changes()) == 0
