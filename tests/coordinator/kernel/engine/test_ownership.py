"""Who leads: fencing by the log, owner entries in the sinks, and a damaged end of the log."""

from __future__ import annotations

import itertools
import threading
import time

import pytest

from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import acting, started
from tests.support.memory_sink import MemorySink
from tpc.coordinator.operations.actions import removal_of
from tpc.errors import (
    FencedError,
    HistoryMismatchError,
)
from tpc.history import OWNERS_KEPT
from tpc.records import RecordKind, decode
from tpc.sink import Owner, Verdict
from tpc.states import Phase

UNKNOWN, REFUSED, LOST = Verdict.UNKNOWN, Verdict.REFUSED, Verdict.LOST


# Fenced --------------------------------------------------------------------------------------------------------------


def test_a_coordinator_that_reads_another_s_record_in_the_slot_of_its_intent_undoes_that_epoch() -> None:
    pipeline = started()
    first, runner = pipeline.engine, pipeline.runner()
    others = [sink.plant(0, generation=2, partition=5) for sink in pipeline.sinks]
    runner.on_prepared = pipeline.somebody_takes_over
    with pytest.raises(FencedError, match="slot 2 of the log belongs to another coordinator"):
        run_epoch(first, 0, runner)
    assert [list(sink.prepared) for sink in pipeline.sinks] == [[other] for other in others]
    assert [[call for call, _ in sink.calls] for sink in pipeline.sinks] == [["abort"], ["abort"]]
    assert first.state.phase is Phase.STOPPED


def test_an_epoch_whose_intent_stands_is_left_to_the_one_that_has_gone_on_from_it() -> None:
    """The answer to the put was lost, and another coordinator has read the intent: it is decided."""
    pipeline = started()
    first = pipeline.engine
    pipeline.log.lost_answers = [True]
    pipeline.clock.while_waiting = pipeline.somebody_takes_over
    with pytest.raises(FencedError, match="the log goes on after slot 2"):
        pipeline.run(0)
    assert [sink.calls for sink in pipeline.sinks] == [[], []]
    assert all(len(sink.prepared) == 1 for sink in pipeline.sinks)
    assert first.state.phase is Phase.STOPPED


def test_a_record_of_another_after_a_lost_answer_proves_nothing_about_the_intent() -> None:
    """An older copy of the log may have been put in its place, and the intent is in the one that was moved."""
    pipeline = started()
    pipeline.log.lost_answers = [False]
    pipeline.clock.while_waiting = pipeline.somebody_takes_over
    with pytest.raises(FencedError, match="slot 2 of the log belongs to another coordinator"):
        pipeline.run(0)
    assert [sink.calls for sink in pipeline.sinks] == [[], []]


# During a pass -------------------------------------------------------------------------------------------------------


def test_a_coordinator_that_is_fenced_during_its_pass_ends_its_tasks_and_undoes_its_epoch() -> None:
    pipeline = started(watch_interval_s=0.01)
    runner = pipeline.runner()

    def until_cancelled() -> None:
        pipeline.somebody_takes_over()
        runner.cancelled.wait(10)
        raise RuntimeError("job 7 was cancelled")

    runner.on_prepared = until_cancelled
    with pytest.raises(FencedError, match="the log goes on after slot 1"):
        run_epoch(pipeline.engine, 0, runner)
    assert runner.cancelled.is_set(), "nobody has ended the tasks"
    assert all(not sink.prepared for sink in pipeline.sinks)


def test_a_pass_whose_tasks_had_not_begun_is_ended_when_they_have() -> None:
    pipeline = started(watch_interval_s=0.01)
    runner = pipeline.runner()
    ended, tries = threading.Event(), itertools.count(1)

    def cancel() -> None:
        number = next(tries)
        if number == 2:
            raise RuntimeError("the JVM did not answer")
        if number == 3:
            ended.set()

    def until_ended() -> None:
        pipeline.somebody_takes_over()
        ended.wait(10)
        raise RuntimeError("job 7 was cancelled")

    runner.cancel = cancel  # type: ignore[method-assign]  # what Spark does of it
    runner.on_prepared = until_ended
    with pytest.raises(FencedError, match="the log goes on after slot 1"):
        run_epoch(pipeline.engine, 0, runner)
    assert ended.is_set(), "nobody has tried again"


def test_a_pass_that_fails_undoes_its_epoch_although_another_leads_by_then() -> None:
    pipeline = started()
    runner = pipeline.runner()

    def fails() -> None:
        pipeline.somebody_takes_over()
        raise RuntimeError("a task failed")

    runner.on_prepared = fails
    with pytest.raises(FencedError, match="the log goes on after slot 1"):
        run_epoch(pipeline.engine, 0, runner)
    assert all(not sink.prepared for sink in pipeline.sinks)


def test_a_pass_that_is_held_up_by_a_branch_of_an_older_term_is_let_go_at_once() -> None:
    pipeline = started(watch_interval_s=0.01)
    pipeline.restarted()
    runner, sink = pipeline.runner(), pipeline.sinks[0]
    late, gone = sink.plant(0, generation=1, partition=5), threading.Event()
    elsewhere = pipeline.sinks[1].plant(0, generation=1, partition=5)

    def waits() -> None:
        sink.held_up_by = late
        for _ in range(3000):
            if late not in sink.prepared:
                gone.set()
                return
            time.sleep(0.01)

    runner.on_prepared = waits
    run_epoch(pipeline.engine, 0, runner)
    assert gone.is_set(), "the branch of the older term still held the pass up"
    assert elsewhere in pipeline.sinks[1].prepared, "a sink in which nobody waits was listed during a pass"
    assert pipeline.engine.state.last_complete == 0


def test_a_coordinator_that_waits_to_commit_sees_that_another_has_taken_over() -> None:
    """Who leads now may have finished the epoch and pruned its markers: what the sinks say then is no contradiction."""
    pipeline = started()
    pipeline.sinks[1].answers = [UNKNOWN] * 3
    pipeline.clock.while_waiting = pipeline.somebody_takes_over
    with pytest.raises(FencedError, match="the log goes on after slot 2"):
        pipeline.run(0)
    assert len(pipeline.sinks[1].calls) == 1


@pytest.mark.parametrize("answer", [LOST, REFUSED, UNKNOWN])
def test_a_coordinator_whose_first_commit_comes_after_another_has_taken_over_is_fenced(answer: Verdict) -> None:
    """A frozen one: who leads now has repaired the epoch, so that its own branch looks lost, or refused."""
    pipeline = started()
    pipeline.sinks[1].answers = [answer]
    pipeline.sinks[1].on_commit = pipeline.somebody_takes_over
    with pytest.raises(FencedError, match="the log goes on after slot 2"):
        pipeline.run(0)
    assert pipeline.engine.state.phase is Phase.STOPPED


# Owner entries -------------------------------------------------------------------------------------------------------


def owner_of(sink: MemorySink) -> Owner:
    assert sink.owner is not None
    return sink.owner


def test_every_sink_knows_the_term_before_anything_is_committed_or_swept() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[0].plant(1)
    seen: list[list[str]] = []
    with acting("recovery.owned", lambda where: seen.append(pipeline.sinks[0].aborted())):
        pipeline.restarted()
    assert seen == [[]]
    record = decode(pipeline.log.read(4), 4)
    assert {(owner_of(sink).generation, owner_of(sink).nonce) for sink in pipeline.sinks} == {(2, record.nonce)}
    assert len(pipeline.sinks[0].aborted()) == 1


def test_a_sink_that_a_coordinator_of_another_log_has_owned_stops_the_start_untouched() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[1].plant(1)
    pipeline.sinks[1].owner = Owner(1, "of a copy", 0.0)
    with pytest.raises(HistoryMismatchError, match="copied, or restored from a backup") as caught:
        pipeline.restarted()
    assert caught.value.sink == "b"
    assert pipeline.sinks[1].aborted() == []
    assert pipeline.sinks[1].owner.nonce == "of a copy"


def test_an_unknown_owner_of_this_log_s_next_term_means_fenced() -> None:
    pipeline = started()

    def overtaken(where: object) -> None:
        pipeline.somebody_takes_over()
        pipeline.sinks[0].owner = Owner(9, "of the next term", 0.0)

    with acting("recovery.claimed", overtaken), pytest.raises(FencedError, match="the log goes on after slot 2"):
        pipeline.restarted()


def test_a_sink_that_many_dead_terms_never_reached_still_knows_this_log() -> None:
    pipeline = started(keep_epochs=1, renew_after_epochs=1)
    for epoch in range(20):
        pipeline.run(epoch)
    reached_last = owner_of(pipeline.sinks[1])
    for _ in range(30):
        pipeline.restarted()
        pipeline.sinks[1].owner = reached_last
    assert reached_last.generation < pipeline.engine.state.generation - 20
    pipeline.restarted()
    pipeline.run(20)
    assert owner_of(pipeline.sinks[1]).generation == pipeline.engine.state.generation


def test_terms_that_every_sink_has_left_behind_are_forgotten() -> None:
    pipeline = started(keep_epochs=5, renew_after_epochs=5)
    for epoch in range(300):
        pipeline.run(epoch)
    assert pipeline.engine.state.generation > 40
    assert len(pipeline.engine.journal.history.owners) < 12


# A damaged end of the log --------------------------------------------------------------------------------------------


def test_a_damaged_intent_that_no_sink_shows_is_voided_and_its_branches_aborted() -> None:
    pipeline = started()
    pipeline.run(0)
    branches = [sink.plant(1) for sink in pipeline.sinks]
    pipeline.log.content[4] = b"half an intent of epoch 1"
    pipeline.restarted()
    assert [sink.aborted() for sink in pipeline.sinks] == [[branch] for branch in branches]
    assert pipeline.engine.state.generation == 3
    pipeline.run(1)
    assert pipeline.restarted().state.last_complete == 1


def test_a_sink_removed_on_the_record_joins_again_after_any_number_of_terms() -> None:
    a, b = MemorySink("a"), MemorySink("b")
    pipeline = started(a, b)
    pipeline.run(0)
    journal = pipeline.engine.journal
    journal.append(RecordKind.REMOVAL, removal_of(journal.history, "b", swept=0, reason="a pause"))
    for epoch in range(1, OWNERS_KEPT + 4):
        pipeline.restarted(sinks=[a])
        pipeline.run(epoch)
    pipeline.restarted(sinks=[a, b])
    assert b.owner == a.owner


def test_a_stranger_in_a_sink_that_was_removed_is_told_all_the_same() -> None:
    a, b = MemorySink("a"), MemorySink("b")
    pipeline = started(a, b)
    journal = pipeline.engine.journal
    journal.append(RecordKind.REMOVAL, removal_of(journal.history, "b", swept=0, reason="a pause"))
    b.owner = Owner(1, "another", 0.0)
    with pytest.raises(HistoryMismatchError, match="owned by generation 1 of a log that is not this one"):
        pipeline.restarted()
