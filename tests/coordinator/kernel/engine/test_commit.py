"""The commits of a decided epoch: answers that are unknown, refused or lost, and what an operator gives up."""

from __future__ import annotations

import threading
import time

import pytest

from tests.support.memory_pipeline import started
from tpc.errors import (
    LogGoneError,
    ParkedError,
    RepairNeededError,
    TransientError,
    UnknownOutcomeError,
)
from tpc.sink import GivenUp, Verdict

UNKNOWN, REFUSED, LOST = Verdict.UNKNOWN, Verdict.REFUSED, Verdict.LOST


# Retries -------------------------------------------------------------------------------------------------------------


def test_an_unknown_outcome_is_tried_again_with_growing_pauses_until_it_is_known() -> None:
    pipeline = started(retry_delay_s=1.0, retry_delay_max_s=5.0)
    pipeline.sinks[0].answers = [UNKNOWN] * 5
    pipeline.run(0)
    assert pipeline.clock.waits_s == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert pipeline.engine.state.last_complete == 0


@pytest.mark.slow
def test_a_sink_that_is_away_for_a_night_is_waited_for_as_for_a_minute() -> None:
    pipeline = started(retry_delay_s=1.0, retry_delay_max_s=5.0)
    pipeline.sinks[0].answers = [UNKNOWN] * 1100
    pipeline.run(0)
    assert pipeline.clock.waits_s[-2:] == [5.0, 5.0]
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
    assert (caught.value.epoch, caught.value.pipeline, caught.value.sink) == (0, "job#1", "a")
    pipeline.sinks[0].answers = []
    assert pipeline.restarted().state.last_complete == 0


def test_stop_ends_the_waiting_for_a_sink_and_changes_nothing() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [UNKNOWN] * 100
    pipeline.clock.while_waiting = pipeline.engine.stopping.set
    with pytest.raises(UnknownOutcomeError):
        pipeline.run(0)
    assert pipeline.record_kinds() == ["generation", "intent"]
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


def test_a_log_that_is_gone_while_an_epoch_is_decided_ends_its_commits() -> None:
    """Another log may have been put in its place, in which somebody else decides: a restart looks again."""
    pipeline = started()
    pipeline.sinks[1].answers = [UNKNOWN]
    pipeline.clock.while_waiting = pipeline.log.content.clear
    with pytest.raises(LogGoneError, match="slot 2 of the log at memory, which this process knows, is not there"):
        pipeline.run(0)
    assert [call for call, _ in pipeline.sinks[1].calls] == ["commit"]


def test_a_log_that_cannot_be_read_does_not_hold_up_the_commits_of_a_decided_epoch() -> None:
    pipeline = started()
    pipeline.sinks[1].answers = [UNKNOWN]
    ask, failures = pipeline.log.goes_on, [TransientError("the log's server is away")] * 2

    def goes_on(slot: int, data: bytes) -> bool:
        if pipeline.sinks[1].calls and failures:
            raise failures.pop()
        return ask(slot, data)

    pipeline.log.goes_on = goes_on  # type: ignore[method-assign]
    pipeline.run(0)
    assert not failures
    assert pipeline.engine.state.last_complete == 0


# Other answers -------------------------------------------------------------------------------------------------------


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


def test_branches_that_an_operator_gave_up_are_ended_before_the_epoch_is_completed() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [REFUSED]
    with pytest.raises(ParkedError):
        pipeline.run(0)
    [resource] = pipeline.sinks[0].prepared
    pipeline.give_up("a")
    engine = pipeline.restarted()
    assert pipeline.sinks[0].calls[1:] == [("give_up", [resource]), ("released", 0)]
    assert (engine.state.last_complete, pipeline.sinks[0].committed) == (0, {})


def test_a_branch_that_was_given_up_and_is_committed_stays_and_every_later_start_works() -> None:
    pipeline = started()
    pipeline.sinks[1].answers = [REFUSED]
    with pytest.raises(ParkedError):
        pipeline.run(0)
    pipeline.give_up("a")  # it has committed, and the operator does not know
    pipeline.give_up("b")
    engine = pipeline.restarted()
    assert engine.state.last_complete == 0
    ends = {r.sink: dict(r.ends) for r in pipeline.engine.journal.history.resolutions}
    assert ends == {"a": {GivenUp.COMMITTED: 1}, "b": {GivenUp.UNDONE: 1}}
    assert [len(sink.released) for sink in pipeline.sinks] == [1, 0]
    again = pipeline.restarted()
    again.participants.check_markers(again.journal.history, again.participants.newest_markers(again.journal.history))
    pipeline.run(1)


def test_a_sink_that_points_elsewhere_now_is_not_asked_for_what_was_given_up() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [REFUSED]
    with pytest.raises(ParkedError):
        pipeline.run(0)
    pipeline.give_up("a")
    pipeline.sinks[0].target = "memory:elsewhere"
    pipeline.sinks[0].prepared.clear()
    pipeline.restarted()
    assert [call for call, _ in pipeline.sinks[0].calls] == ["commit", "released"]
    [resolution] = pipeline.engine.journal.history.resolutions
    assert resolution.ends == {GivenUp.NOT_KNOWN: 1}


def test_a_sink_that_an_operator_gave_up_may_leave_the_pipeline() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [REFUSED]
    with pytest.raises(ParkedError):
        pipeline.run(0)
    pipeline.give_up("a")
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
