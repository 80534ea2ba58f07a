"""Puts of the log whose answer is lost."""

from __future__ import annotations

import pytest

from tests.support.memory_pipeline import started
from tpc.errors import (
    DecisionUnknownError,
    FencedError,
)
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
