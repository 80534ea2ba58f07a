"""Puts of the log whose answer is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import acting, started
from tpc.errors import DecisionUnknownError, FencedError, PutUnknownError, TransientError
from tpc.sink import Verdict

UNKNOWN, REFUSED, LOST = Verdict.UNKNOWN, Verdict.REFUSED, Verdict.LOST


@pytest.mark.parametrize("lands", [True, False], ids=["it had landed", "it had not"])
def test_a_put_whose_answer_is_lost_is_repeated_with_the_identical_record(lands: bool) -> None:
    pipeline = started(retry_delay_s=1.0)
    pipeline.log.lost_answers = [lands, False]
    pipeline.run(0)
    assert pipeline.record_kinds() == ["generation", "intent", "complete"]
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
    pipeline.clock.while_waiting = pipeline.somebody_takes_over
    with pytest.raises(FencedError, match="slot 2 of the log belongs to another coordinator"):
        pipeline.run(0)
    assert [sink.calls for sink in pipeline.sinks] == [[], []]


def test_an_owner_of_the_slot_that_cannot_be_read_is_asked_for_until_it_is_known() -> None:
    """Another has decided epoch 1: "nothing of it is visible" would be false."""
    pipeline = started(log_timeout_s=60)
    pipeline.run(0)
    old, read = pipeline.engine, pipeline.log.read
    failures = [TransientError("connection refused")] * 2

    def unreadable(slot: int) -> bytes:
        if failures and slot == 4:
            raise failures.pop()
        return read(slot)

    def another_decides(where: Mapping[str, Any]) -> None:
        if where["kind"] == "intent" and pipeline.engine is old:
            pipeline.restarted()
            pipeline.run(1)
            pipeline.log.read = unreadable  # type: ignore[method-assign]

    runner = pipeline.runner()
    with acting("log.put", another_decides), pytest.raises(FencedError, match="slot 4") as caught:
        run_epoch(old, 1, runner)
    assert failures == []
    assert caught.value.safe == "the log says whether epoch 1 is decided: the current leader finishes it or runs it."


def test_an_owner_of_the_slot_that_stays_unreadable_leaves_the_decision_unknown() -> None:
    pipeline = started(log_timeout_s=5)
    pipeline.run(0)
    old, read = pipeline.engine, pipeline.log.read

    def unreadable(slot: int) -> bytes:
        if slot == 4:
            raise TransientError("connection refused")
        return read(slot)

    def another(where: Mapping[str, Any]) -> None:
        if where["kind"] == "intent":
            pipeline.somebody_takes_over()
            pipeline.log.read = unreadable  # type: ignore[method-assign]

    with (
        acting("log.put", another),
        pytest.raises(PutUnknownError, match="may be durable: connection refused") as caught,
    ):
        run_epoch(old, 1, pipeline.runner())
    assert "whether epoch 1 is decided is unknown" in caught.value.safe


# Pruning ---------------------------------------------------------------------------------------------------------


def test_a_log_that_cannot_be_pruned_is_a_warning_and_pruned_later(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = started(keep_epochs=2, renew_after_epochs=4)
    delete = pipeline.log.delete

    def denied(slots: Sequence[int]) -> None:
        raise TransientError("the log cannot be pruned: AccessDenied")

    pipeline.log.delete = denied  # type: ignore[method-assign]
    pipeline.run(*range(10))
    assert pipeline.restarted().state.last_complete == 9
    assert pipeline.log.slots()[0] == 1
    assert "cannot be pruned: AccessDenied. The pipeline goes on" in caplog.text
    pipeline.log.delete = delete  # type: ignore[method-assign]
    pipeline.restarted()
    assert pipeline.log.slots()[0] == pipeline.engine.journal.history.floor > 1
