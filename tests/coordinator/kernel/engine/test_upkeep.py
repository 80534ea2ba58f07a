"""What a coordinator takes with it from one epoch to the next, and what it must not: clocks, threads, locks, notes."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NoReturn

import pytest

from tests.core.builders import JOB
from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import MemoryPipeline, started
from tpc.coordinator.kernel.engine import Engine
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.kernel.participants import Participants
from tpc.coordinator.kernel.transition import Transition
from tpc.errors import FencedError, ParkedError, TransientError, UnknownOutcomeError
from tpc.events import Event, Swept
from tpc.records import RecordKind
from tpc.sink import Verdict
from tpc.states import Phase

DEADLINE_S = 20.0


# Clocks --------------------------------------------------------------------------------------------------------------


def test_finishing_is_given_up_so_long_after_its_first_attempt_however_old_the_coordinator_is() -> None:
    pipeline = started(retry_delay_s=4.0, retry_delay_max_s=4.0, finish_timeout_s=8.0)
    pipeline.run(0)
    pipeline.clock.advance(1000.0)
    pipeline.sinks[0].answers = [Verdict.UNKNOWN] * 100
    with pytest.raises(UnknownOutcomeError):
        pipeline.run(1)
    assert pipeline.clock.waits_s == [4.0, 4.0, 4.0]


def test_a_put_is_repeated_as_long_as_its_next_attempt_is_within_the_limit() -> None:
    pipeline = started(retry_delay_s=4.0, retry_delay_max_s=4.0, log_timeout_s=8.0)
    pipeline.log.lost_answers = [False, False]
    pipeline.run(0)
    assert pipeline.clock.waits_s == [4.0, 4.0]


def test_the_phases_and_sinks_of_a_complete_record_are_those_of_its_epoch_alone() -> None:
    pipeline = started()
    for epoch, feeds in enumerate((["a", "b"], ["a"])):
        pipeline.clock.advance(100.0)
        runner = pipeline.runner(feeds)
        runner.on_prepared = lambda: pipeline.clock.advance(2.0)
        run_epoch(pipeline.engine, epoch, runner)
    body = pipeline.newest(RecordKind.COMPLETE)
    assert body["seconds"] == {"pass": 0.0, "verify": 2.0, "intent": 0.0, "commit": 0.0}
    assert set(body["commit_seconds"]) == {"a"}
    assert body["started_at"] == body["completed_at"] - 2.0


def test_what_a_start_finishes_begins_with_that_start() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [Verdict.LOST]
    with pytest.raises(Exception, match="lost"):
        pipeline.run(0)
    pipeline.sinks[0].answers = []
    engine = pipeline.restarted(recover=False)
    pipeline.clock.advance(100.0)
    engine.recover()
    body = pipeline.newest(RecordKind.COMPLETE)
    assert (body["started_at"], body["seconds"]["commit"]) == (pipeline.clock.wall(), 0.0)


def test_a_renewed_term_and_a_sweep_begin_their_intervals_again() -> None:
    pipeline = started(renew_after_s=100.0, sweep_interval_s=30.0)
    events: list[Event] = []
    pipeline.engine.observe = lambda transition: events.append(transition.event)
    pipeline.clock.advance(100.0)
    for _ in range(3):
        pipeline.engine.upkeep()
    assert pipeline.engine.state.generation == 2
    assert [event for event in events if isinstance(event, Swept)] == [Swept(0), Swept(0)]  # it was due, and a new term


def test_how_many_branches_a_start_has_aborted_is_told() -> None:
    pipeline = started()
    engine = pipeline.restarted(recover=False)
    assert engine.recover() == 0
    for partition in (3, 4):
        pipeline.sinks[0].plant(5, partition=partition)
    assert pipeline.restarted(recover=False).recover() == 2
    pipeline.sinks[1].plant(5)
    assert pipeline.restarted(recover=False).claim_and_sweep() == 1


# Sweeps that fail ----------------------------------------------------------------------------------------------------


def test_a_sweep_that_could_not_be_made_in_quiet_hours_counts_as_one_of_nothing() -> None:
    pipeline = started()
    pipeline.run(0)
    transitions: list[Transition] = []
    pipeline.engine.observe = transitions.append
    pipeline.sinks[0].plant(0, partition=9)
    pipeline.sinks[0].abort_error = TransientError("down")
    pipeline.wait_for_sweep()
    assert [each.event for each in transitions if isinstance(each.event, Swept)] == [Swept(0)]


def test_a_sweep_that_fails_in_a_new_term_stops_the_pipeline_though_one_in_quiet_hours_did_not() -> None:
    pipeline = started(renew_after_s=100.0, sweep_interval_s=30.0)
    pipeline.run(0)
    pipeline.wait_for_sweep()
    pipeline.sinks[0].plant(0, generation=0, partition=9)
    pipeline.sinks[0].abort_error = TransientError("down")
    pipeline.clock.advance(70.0)
    with pytest.raises(TransientError, match="down"):
        pipeline.engine.upkeep()


# Threads and locks ---------------------------------------------------------------------------------------------------


def watching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "tpc-watch"]


@pytest.mark.parametrize("end", [None, RuntimeError("of a task"), KeyboardInterrupt()], ids=["ends", "fails", "stops"])
def test_a_pass_is_watched_to_its_end_and_no_further(end: BaseException | None) -> None:
    pipeline = started(watch_interval_s=0.01)
    seen: list[tuple[str, int]] = []
    for sink in pipeline.sinks:
        sink.on_commit = lambda: seen.append(("commit", len(watching())))
    runner = pipeline.runner()

    def prepared() -> None:
        seen.append(("pass", len(watching())))
        assert all(thread.daemon for thread in watching()), "an interpreter that ends would wait for the watch"
        pipeline.sinks[0].on_listed = lambda: seen.append(("abort", len(watching())))
        if end is not None:
            raise end

    runner.on_prepared = prepared
    ends: AbstractContextManager[object] = nullcontext() if end is None else pytest.raises(type(end))
    with ends:
        run_epoch(pipeline.engine, 0, runner)
    assert watching() == []
    if end is None:
        steps = ["pass", "commit", "commit"]
    else:
        steps = ["pass", "abort"] if isinstance(end, Exception) else ["pass"]
    assert seen == [(step, int(step == "pass")) for step in steps]


def test_who_asks_for_the_leader_holds_up_no_epoch() -> None:
    pipeline = started()
    told: list[FencedError | None] = []
    has_asked, may_end = threading.Event(), threading.Event()

    def ask() -> None:
        told.append(pipeline.engine.fenced())
        has_asked.set()
        may_end.wait(DEADLINE_S)  # a lock that it kept would not be free by its end either, and its number be another's

    asking, batch = threading.Thread(target=ask), threading.Thread(target=pipeline.run, args=(0,), daemon=True)
    asking.start()
    assert has_asked.wait(DEADLINE_S)
    batch.start()
    batch.join(DEADLINE_S / 4)
    may_end.set()
    asking.join(DEADLINE_S)
    assert told == [None]
    assert pipeline.engine.state.last_complete == 0


# Who leads -----------------------------------------------------------------------------------------------------------


def test_what_a_sink_says_of_another_leader_counts_although_the_log_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = started()
    runner = pipeline.runner()

    def fenced() -> None:
        def fails(self: Journal) -> None:
            raise TransientError("the log is away")

        monkeypatch.setattr(Journal, "require_leading", fails)
        raise FencedError("the sink has met generation 2")

    runner.on_prepared = fenced
    with pytest.raises(FencedError, match="the sink has met generation 2"):
        run_epoch(pipeline.engine, 0, runner)
    assert pipeline.record_kinds() == ["generation"]
    assert [sink.prepared for sink in pipeline.sinks] == [{}, {}], "its locks hold up the one that leads"


def test_who_has_led_does_not_begin_again() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [Verdict.REFUSED]
    with pytest.raises(ParkedError):
        pipeline.run(0)
    assert not pipeline.engine.begin_again()
    assert pipeline.engine.state.phase is Phase.STOPPED


def test_whose_claim_was_not_stored_begins_again_as_if_it_had_asked_nothing() -> None:
    pipeline = started()
    pipeline.run(0)
    engine = pipeline.restarted(recover=False)
    assert not engine.begin_again(), "nothing was asked for yet"
    pipeline.somebody_takes_over()
    with pytest.raises(FencedError, match="slot 4 of the log belongs to another coordinator"):
        engine.recover()
    assert engine.begin_again()
    engine.journal.open()
    engine.recover()
    pipeline.run(1)
    assert engine.state.last_complete == 1


# What is noted beside the log ----------------------------------------------------------------------------------------


def noting(pipeline: MemoryPipeline, place: Path) -> Engine:
    journal = Journal(pipeline.log)
    journal.open()
    sinks = Participants(JOB, pipeline.sinks)
    pipeline.engine = Engine(journal, sinks, pipeline.clock, pipeline.settings, ParkedNote(place))
    pipeline.engine.generation_fields = {"sinks": {sink.name: sink.target for sink in pipeline.sinks}, "query_id": "q"}
    pipeline.engine.recover()
    return pipeline.engine


def test_a_refusal_is_noted_until_its_epoch_is_complete(tmp_path: Path) -> None:
    pipeline = started()
    noting(pipeline, tmp_path)
    pipeline.sinks[0].answers = [Verdict.UNKNOWN]
    pipeline.clock.while_waiting = pipeline.engine.stopping.set
    with pytest.raises(UnknownOutcomeError):
        pipeline.run(0)
    assert list(tmp_path.iterdir()) == [], "no sink has refused it"
    pipeline.clock.while_waiting = lambda: None
    pipeline.sinks[0].answers = [Verdict.REFUSED]
    with pytest.raises(ParkedError):
        noting(pipeline, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["parked.json"]
    pipeline.give_up("a")
    noting(pipeline, tmp_path)
    assert list(tmp_path.iterdir()) == []


# A replay that fails -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_replay", [True, False])
def test_what_an_error_advises_is_that_of_a_decided_epoch_only_where_one_is_run_again(is_replay: bool) -> None:
    pipeline = started()
    if is_replay:
        pipeline.run(0)
        pipeline.restarted()
    runner = pipeline.runner()

    def fails(*_: object) -> NoReturn:
        raise TransientError("no disk left for the sort", remedy="free space.")

    runner.on_prepared = fails
    runner.replay = fails  # type: ignore[assignment,method-assign]  # it raises
    with pytest.raises(TransientError) as caught:
        run_epoch(pipeline.engine, 0, runner)
    assert ("the replay is repeated" in caught.value.remedy) == is_replay
