"""The engine on a log, sinks and a clock in memory: retries, sweeps, fencing, renewal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from tests.core.builders import JOB
from tests.support.memory import MemoryPipeline, MemorySink
from tpc import failpoints
from tpc.errors import (
    DataError,
    DecisionUnknownError,
    FencedError,
    HistoryMismatchError,
    ParkedError,
    RepairNeededError,
    TpcError,
    TransientError,
    UnknownOutcomeError,
)
from tpc.handles import PipelineId
from tpc.history import Action, Resolution
from tpc.records import RecordKind, decode
from tpc.sink import Owner, Verdict
from tpc.states import Phase

UNKNOWN, REFUSED, LOST = Verdict.UNKNOWN, Verdict.REFUSED, Verdict.LOST


def started(*sinks: MemorySink, **settings: object) -> MemoryPipeline:
    pipeline = MemoryPipeline(*sinks, **settings)
    pipeline.engine.recover()
    return pipeline


def kinds(pipeline: MemoryPipeline) -> list[str]:
    return [decode(pipeline.log.read(slot), slot).kind.value for slot in pipeline.log.slots()]


def newest(pipeline: MemoryPipeline, kind: RecordKind) -> dict[str, object]:
    records = [decode(pipeline.log.read(slot), slot) for slot in pipeline.log.slots()]
    return dict([record.body for record in records if record.kind is kind][-1])


# An epoch without faults -----------------------------------------------------------------------------------------


def test_an_epoch_is_decided_committed_completed_and_released_in_this_order() -> None:
    pipeline = started()
    seen: list[list[str]] = []
    pipeline.sinks[0].on_commit = lambda: seen.append(kinds(pipeline))
    pipeline.run(0)
    assert seen == [["generation", "intent"]]
    assert kinds(pipeline) == ["generation", "intent", "complete"]
    assert [call for call, _ in pipeline.sinks[0].calls] == ["commit", "released"]


def test_the_complete_record_carries_the_seconds_of_every_phase_and_sink() -> None:
    pipeline = started()
    runner = pipeline.runner()
    runner.on_prepared = lambda: pipeline.clock.advance(2.0)
    pipeline.sinks[0].answers = [UNKNOWN]
    pipeline.engine.run_batch(0, runner)
    body = newest(pipeline, RecordKind.COMPLETE)
    assert body["seconds"] == {"pass": 0.0, "verify": 2.0, "intent": 0.0, "commit": 0.05}
    assert body["sink_seconds"] == {"a": {"write": 0.25, "prepare": 0.5}}
    assert set(body["commit_seconds"]) == {"a", "b"}  # type: ignore[call-overload]
    assert body["commit_attempts"] == 2
    assert body["completed_at"] == body["started_at"] + 2.05  # type: ignore[operator]


def test_the_seconds_of_a_complete_record_stand_in_the_next_one() -> None:
    pipeline = started()
    pipeline.run(0)
    failpoints.install({"epoch.committed": lambda step, where: None})
    try:
        pipeline.run(1)
    finally:
        failpoints.install({})
    assert newest(pipeline, RecordKind.COMPLETE)["previous_complete"] == {"epoch": 0, "seconds": 0.0}


def test_sinks_whose_branches_expire_are_sent_first() -> None:
    order: list[str] = []
    sinks = [MemorySink("a"), MemorySink("z", commits_first=True)]
    pipeline = started(*sinks)
    failpoints.install({"sink.commit": lambda step, where: order.append(where["sink"])})
    try:
        pipeline.engine.participants._pool._max_workers = 1  # one thread: the order of sending is the order of work
        pipeline.run(0)
    finally:
        failpoints.install({})
    assert order == ["z", "a"]


# Retries -----------------------------------------------------------------------------------------------------------


def test_an_unknown_outcome_is_tried_again_with_growing_pauses_until_it_is_known() -> None:
    pipeline = started(retry_delay_s=1.0, retry_delay_max_s=5.0)
    pipeline.sinks[0].answers = [UNKNOWN] * 5
    pipeline.run(0)
    assert pipeline.clock.waits_s == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert pipeline.engine.state.last_complete == 0


def test_only_what_is_not_settled_is_sent_again() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [UNKNOWN]
    pipeline.run(0)
    assert [call for call, _ in pipeline.sinks[0].calls].count("commit") == 2
    assert [call for call, _ in pipeline.sinks[1].calls].count("commit") == 1


def test_a_sink_that_raises_does_not_take_the_answers_of_the_others_along() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [TransientError("no answer")]
    pipeline.run(0)
    assert [call for call, _ in pipeline.sinks[1].calls].count("commit") == 1
    assert len(pipeline.sinks[0].committed) == 1


def test_a_foreign_error_of_a_sink_is_raised_after_the_others_have_answered() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [RuntimeError("a defect of a driver")]
    pipeline.sinks[1].on_commit = lambda: time.sleep(0.3)  # answers after the other has raised
    with pytest.raises(RuntimeError, match="a defect of a driver"):
        pipeline.run(0)
    assert len(pipeline.sinks[1].committed) == 1
    assert pipeline.restarted().state.last_complete == 0


def test_finishing_is_given_up_after_its_timeout_and_the_next_start_goes_on() -> None:
    pipeline = started(retry_delay_s=4.0, retry_delay_max_s=4.0, finish_timeout_s=10.0)
    pipeline.sinks[0].answers = [UNKNOWN] * 100
    with pytest.raises(UnknownOutcomeError, match="a says unknown") as caught:
        pipeline.run(0)
    assert pipeline.clock.waits_s == [4.0, 4.0, 4.0]
    assert (caught.value.epoch, caught.value.pipeline) == (0, "job#1")
    pipeline.sinks[0].answers = []
    assert pipeline.restarted().state.last_complete == 0


def test_stop_ends_the_waiting_for_a_sink_and_changes_nothing() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [UNKNOWN] * 100
    pipeline.clock.while_waiting = pipeline.engine.stopping.set
    with pytest.raises(UnknownOutcomeError):
        pipeline.run(0)
    assert kinds(pipeline) == ["generation", "intent"]
    assert len(pipeline.sinks[0].prepared) == 1
    assert pipeline.sinks[0].aborted() == []


def test_stop_waits_for_the_epoch_that_is_being_worked_on() -> None:
    pipeline = started()
    working, go_on = threading.Event(), threading.Event()

    def slow_commit() -> None:
        working.set()
        go_on.wait(10)

    pipeline.sinks[0].on_commit = slow_commit
    batch = threading.Thread(target=pipeline.run, args=(0,))
    batch.start()
    assert working.wait(10)
    stop = threading.Thread(target=pipeline.engine.stop)
    stop.start()
    stop.join(0.2)
    assert stop.is_alive()
    go_on.set()
    stop.join(10)
    batch.join(10)
    assert pipeline.engine.state.last_complete == 0


# Other answers -----------------------------------------------------------------------------------------------------


def test_a_refused_epoch_is_parked_after_the_others_have_committed() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [REFUSED]
    with pytest.raises(ParkedError, match="a says refused") as caught:
        pipeline.run(0)
    assert (caught.value.sink, caught.value.epoch) == ("a", 0)
    assert len(pipeline.sinks[1].committed) == 1


def test_a_branch_lost_in_a_running_query_asks_for_a_restart() -> None:
    pipeline = started()
    pipeline.sinks[1].answers = [LOST]
    with pytest.raises(RepairNeededError) as caught:
        pipeline.run(0)
    assert caught.value.sink == "b"


def test_branches_that_an_operator_gave_up_are_aborted_before_the_epoch_is_completed() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [REFUSED]
    with pytest.raises(ParkedError):
        pipeline.run(0)
    [resource] = pipeline.sinks[0].prepared
    resolve(pipeline, "a")
    engine = pipeline.restarted()
    assert pipeline.sinks[0].calls[1:] == [("abort", [resource]), ("released", 0)]
    assert (engine.state.last_complete, pipeline.sinks[0].committed) == (0, {})


def resolve(pipeline: MemoryPipeline, sink: str) -> None:
    resolution = Resolution(0, sink, Action.ACCEPT_LOSS, "gone", "anna")
    pipeline.engine.journal.append(RecordKind.RESOLUTION, resolution.to_json())


def test_a_sink_that_an_operator_gave_up_may_leave_the_pipeline() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [REFUSED]
    with pytest.raises(ParkedError):
        pipeline.run(0)
    resolve(pipeline, "a")
    engine = pipeline.restarted(sinks=pipeline.sinks[1:])
    assert engine.state.last_complete == 0
    pipeline.run(1)


def test_a_sink_without_branches_in_the_decided_epoch_may_leave_the_pipeline() -> None:
    pipeline = started()
    pipeline.sinks[1].answers = [UNKNOWN]
    pipeline.clock.while_waiting = pipeline.engine.stopping.set
    with pytest.raises(UnknownOutcomeError):
        pipeline.run(0, feeds=["b"])
    assert pipeline.restarted(sinks=pipeline.sinks[1:]).state.last_complete == 0


# Before the decision -----------------------------------------------------------------------------------------------


def fail(error: BaseException) -> Callable[[], None]:
    def failing() -> None:
        raise error

    return failing


def test_a_pass_that_fails_aborts_its_own_branches_in_every_sink_and_decides_nothing() -> None:
    pipeline = started()
    runner = pipeline.runner()
    runner.on_prepared = fail(DataError("a bad row"))
    with pytest.raises(DataError) as caught:
        pipeline.engine.run_batch(0, runner)
    assert (caught.value.epoch, caught.value.pipeline) == (0, "job#1")
    assert [len(sink.aborted()) for sink in pipeline.sinks] == [1, 1]
    assert kinds(pipeline) == ["generation"]


def test_a_foreign_error_of_a_pass_is_raised_as_it_is() -> None:
    pipeline = started()
    runner = pipeline.runner()
    runner.on_prepared = fail(ZeroDivisionError("the user's function"))
    with pytest.raises(ZeroDivisionError):
        pipeline.engine.run_batch(0, runner)
    assert pipeline.sinks[0].prepared == {}


def test_an_epoch_that_cannot_be_undone_now_is_undone_by_the_next_start() -> None:
    pipeline = started()
    runner = pipeline.runner()
    runner.on_prepared = fail(DataError("a bad row"))
    pipeline.sinks[0].abort_error = TransientError("down")
    with pytest.raises(DataError, match="a bad row"):
        pipeline.engine.run_batch(0, runner)
    assert (len(pipeline.sinks[0].prepared), len(pipeline.sinks[1].prepared)) == (1, 0)
    pipeline.sinks[0].abort_error = None
    pipeline.restarted()
    assert pipeline.sinks[0].prepared == {}


def test_a_coordinator_fenced_at_its_intent_commits_and_aborts_nothing() -> None:
    pipeline = started()
    first, runner = pipeline.engine, pipeline.runner()
    runner.on_prepared = lambda: take_slot(pipeline)
    with pytest.raises(FencedError):
        first.run_batch(0, runner)
    assert [sink.calls for sink in pipeline.sinks] == [[], []]
    assert first.state.phase is Phase.STOPPED


def test_a_coordinator_that_waits_to_commit_sees_that_another_has_taken_over() -> None:
    """Who leads now may have finished the epoch and pruned its markers: what the sinks say then is no contradiction."""
    pipeline = started()
    pipeline.sinks[1].answers = [UNKNOWN] * 3
    pipeline.clock.while_waiting = lambda: take_slot(pipeline)
    with pytest.raises(FencedError, match="the log goes on to slot 3"):
        pipeline.run(0)
    assert len(pipeline.sinks[1].calls) == 1


@pytest.mark.parametrize("answer", [LOST, REFUSED, UNKNOWN])
def test_a_coordinator_whose_first_commit_comes_after_another_has_taken_over_is_fenced(answer: Verdict) -> None:
    """A frozen one: who leads now has repaired the epoch, so that its own branch looks lost, or refused."""
    pipeline = started()
    pipeline.sinks[1].answers = [answer]
    pipeline.sinks[1].on_commit = lambda: take_slot(pipeline)
    with pytest.raises(FencedError, match="the log goes on to slot 3"):
        pipeline.run(0)
    assert pipeline.engine.state.phase is Phase.STOPPED


def test_a_log_that_shows_nothing_while_an_epoch_is_decided_does_not_end_its_commits() -> None:
    """A directory that is not mounted for a moment."""
    pipeline = started()
    pipeline.sinks[1].answers = [UNKNOWN]
    read, empty = pipeline.log.slots, [True]
    pipeline.log.slots = lambda: [] if pipeline.sinks[1].calls and empty and empty.pop() else read()  # type: ignore[method-assign]
    pipeline.run(0)
    assert not empty
    assert pipeline.engine.state.last_complete == 0


def test_a_log_that_cannot_be_read_does_not_hold_up_the_commits_of_a_decided_epoch() -> None:
    pipeline = started()
    pipeline.sinks[1].answers = [UNKNOWN]
    read, failures = pipeline.log.slots, [TransientError("the log's server is away")] * 2

    def slots() -> list[int]:
        if pipeline.sinks[1].calls and failures:
            raise failures.pop()
        return read()

    pipeline.log.slots = slots  # type: ignore[method-assign]
    pipeline.run(0)
    assert not failures
    assert pipeline.engine.state.last_complete == 0


def take_slot(pipeline: MemoryPipeline) -> None:
    pipeline.log.content[pipeline.log.slots()[-1] + 1] = b"another coordinator's record"


# Sweeps ------------------------------------------------------------------------------------------------------------


def test_recovery_aborts_branches_of_older_generations() -> None:
    pipeline = started()
    old = [pipeline.sinks[0].plant(5), pipeline.sinks[0].plant(None, partition=3)]
    pipeline.restarted()
    assert pipeline.sinks[0].aborted() == sorted(old)


def test_recovery_leaves_what_the_pending_intent_names_until_it_is_committed() -> None:
    pipeline = started()
    failpoints.install({"epoch.decided": lambda step, where: fail(KeyboardInterrupt())()})
    try:
        with pytest.raises(KeyboardInterrupt):
            pipeline.run(0)
    finally:
        failpoints.install({})
    pipeline.restarted(recover=False).claim_and_sweep()
    assert [(len(sink.prepared), sink.aborted()) for sink in pipeline.sinks] == [(1, []), (1, [])]


def test_own_losers_at_or_below_the_last_complete_epoch_are_swept() -> None:
    pipeline = started()
    pipeline.run(0, 1)
    losers = [pipeline.sinks[0].plant(epoch, partition=9) for epoch in (0, 1)]
    sweep(pipeline)
    assert pipeline.sinks[0].aborted() == losers


def sweep(pipeline: MemoryPipeline) -> None:
    pipeline.clock.advance(pipeline.settings.sweep_interval_s)
    pipeline.engine.upkeep()


def test_a_branch_of_its_own_running_epoch_is_left_alone() -> None:
    pipeline = started()
    pipeline.run(0)
    running = pipeline.sinks[0].plant(1)
    sweep(pipeline)
    assert list(pipeline.sinks[0].prepared) == [running]


def test_a_branch_of_its_own_whose_epoch_the_system_does_not_tell_is_swept_between_the_passes() -> None:
    pipeline = started()
    pipeline.run(0)
    unknown = pipeline.sinks[0].plant(None)
    sweep(pipeline)
    assert pipeline.sinks[0].aborted() == [unknown]


def test_a_branch_of_a_higher_generation_means_fenced_and_nothing_is_aborted() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[0].plant(0, partition=9)
    pipeline.sinks[1].plant(1, generation=2)
    with pytest.raises(FencedError, match="generation 2 exists, this coordinator is generation 1") as caught:
        sweep(pipeline)
    assert caught.value.sink == "b"
    assert pipeline.sinks[0].aborted() == []


def test_branches_of_another_incarnation_or_pipeline_are_left_alone() -> None:
    pipeline = started()
    pipeline.sinks[0].plant(0, pipeline=PipelineId("job", 2))
    pipeline.sinks[0].plant(0, pipeline=PipelineId("job-2"))
    pipeline.restarted()
    assert len(pipeline.sinks[0].prepared) == 2


def test_nothing_is_aborted_when_the_log_goes_on_between_the_listing_and_the_abort() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[0].plant(0, partition=9)
    pipeline.sinks[0].on_listed = lambda: take_slot(pipeline)
    with pytest.raises(FencedError, match="the log goes on to slot 4"):
        sweep(pipeline)
    assert pipeline.sinks[0].aborted() == []


def test_quiet_hours_are_swept_at_the_interval_only() -> None:
    pipeline = started(sweep_interval_s=30.0)
    pipeline.run(0)
    pipeline.sinks[0].plant(0, partition=9)
    pipeline.clock.advance(29.0)
    pipeline.engine.upkeep()
    assert pipeline.sinks[0].aborted() == []
    pipeline.clock.advance(1.0)
    pipeline.engine.upkeep()
    assert len(pipeline.sinks[0].aborted()) == 1


def test_an_epoch_with_repeated_tasks_is_swept_at_once() -> None:
    pipeline = started()
    runner = pipeline.runner()
    runner.repeated_tasks = True
    loser = pipeline.sinks[0].plant(0, partition=9)
    pipeline.engine.run_batch(0, runner)
    assert pipeline.sinks[0].aborted() == [loser]


def test_a_sweep_that_fails_in_quiet_hours_is_tried_again_at_the_next_one() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[0].plant(0, partition=9)
    pipeline.sinks[0].abort_error = TransientError("down")
    sweep(pipeline)
    assert pipeline.engine.state.phase is Phase.READY
    pipeline.sinks[0].abort_error = None
    sweep(pipeline)
    assert pipeline.sinks[0].prepared == {}


def test_a_sweep_that_fails_at_start_stops_the_start() -> None:
    pipeline = started()
    pipeline.sinks[0].plant(5)
    pipeline.sinks[0].abort_error = TransientError("down")
    with pytest.raises(TransientError) as caught:
        pipeline.restarted()
    assert (caught.value.sink, caught.value.pipeline) == ("a", str(JOB))


# Terms -------------------------------------------------------------------------------------------------------------


def test_a_term_is_renewed_after_so_many_epochs() -> None:
    pipeline = started(renew_after_epochs=3)
    pipeline.run(*range(4))
    assert pipeline.engine.state.generation == 2
    assert pipeline.engine.state.phase is Phase.READY
    pipeline.run(4)
    assert [handle.generation for handle in pipeline.sinks[0].committed.values()] == [1, 1, 1, 1, 2]


def test_the_number_of_slots_stays_bounded_over_thousands_of_epochs() -> None:
    pipeline = started(keep_epochs=20, renew_after_epochs=20)
    most = 0
    for epoch in range(2000):
        pipeline.run(epoch)
        most = max(most, len(pipeline.log.slots()))
    assert most <= 2 * (20 + 2 * 20) + 5
    history = pipeline.restarted().journal.history
    assert history.last_complete == 1999
    assert len(history.manifests) >= 20


def test_a_batch_is_run_again_without_touching_a_sink_when_its_epoch_is_complete() -> None:
    pipeline = started()
    pipeline.run(0)
    before = [list(sink.calls) for sink in pipeline.sinks]
    pipeline.restarted()
    runner = pipeline.runner()
    pipeline.engine.run_batch(0, runner)
    assert [effect.epoch for effect in runner.replays] == [0]
    assert [list(sink.calls) for sink in pipeline.sinks] == before


def test_a_term_is_renewed_after_so_much_time_though_no_batch_comes() -> None:
    pipeline = started(renew_after_s=100.0)
    pipeline.clock.advance(99.0)
    pipeline.engine.upkeep()
    assert pipeline.engine.state.generation == 1
    pipeline.clock.advance(1.0)
    pipeline.engine.upkeep()
    assert pipeline.engine.state.generation == 2
    assert [owner_of(sink).generation for sink in pipeline.sinks] == [2, 2]


# The log's answers are lost -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lands", [True, False], ids=["it had landed", "it had not"])
def test_a_put_whose_answer_is_lost_is_repeated_with_the_identical_record(lands: bool) -> None:
    pipeline = started(retry_delay_s=1.0)
    pipeline.log.lost_answers = [lands, False]
    pipeline.run(0)
    assert kinds(pipeline) == ["generation", "intent", "complete"]
    assert pipeline.clock.waits_s == [1.0, 2.0]
    assert pipeline.engine.state.last_complete == 0


def test_a_put_that_stays_unknown_commits_and_aborts_nothing() -> None:
    pipeline = started(retry_delay_s=4.0, retry_delay_max_s=4.0, log_timeout_s=10.0)
    pipeline.log.lost_answers = [False] * 100
    with pytest.raises(DecisionUnknownError, match="the answer for slot 2 was lost"):
        pipeline.run(0)
    assert pipeline.clock.waits_s == [4.0, 4.0]
    assert [sink.calls for sink in pipeline.sinks] == [[], []]


def test_stopping_ends_the_repetition_of_an_unknown_put() -> None:
    pipeline = started()
    pipeline.log.lost_answers = [True] * 100
    pipeline.clock.while_waiting = pipeline.engine.stopping.set
    with pytest.raises(DecisionUnknownError, match="stopped before its put was answered"):
        pipeline.run(0)
    pipeline.log.lost_answers = []
    assert pipeline.restarted().state.last_complete == 0


def test_a_slot_that_somebody_else_took_while_the_answer_was_lost_means_fenced() -> None:
    pipeline = started()
    pipeline.log.lost_answers = [False]
    pipeline.clock.while_waiting = lambda: take_slot(pipeline)
    with pytest.raises(FencedError, match="slot 2 of the log belongs to another coordinator"):
        pipeline.run(0)
    assert [sink.calls for sink in pipeline.sinks] == [[], []]


# Owners ------------------------------------------------------------------------------------------------------------


def owner_of(sink: MemorySink) -> Owner:
    assert sink.owner is not None
    return sink.owner


def test_every_sink_knows_the_term_before_anything_is_committed_or_swept() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[0].plant(1)
    seen: list[list[str]] = []
    failpoints.install({"recovery.owned": lambda step, where: seen.append(pipeline.sinks[0].aborted())})
    try:
        pipeline.restarted()
    finally:
        failpoints.install({})
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

    def overtaken(step: str, where: object) -> None:
        take_slot(pipeline)
        pipeline.sinks[0].owner = Owner(9, "of the next term", 0.0)

    failpoints.install({"recovery.claimed": overtaken})
    try:
        with pytest.raises(FencedError, match="the log goes on to slot 3"):
            pipeline.restarted()
    finally:
        failpoints.install({})


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


def test_every_error_names_the_pipeline() -> None:
    pipeline = started()
    pipeline.run(0)
    with pytest.raises(TpcError) as caught:
        pipeline.run(5)
    assert (caught.value.pipeline, caught.value.epoch) == ("job#1", 5)
