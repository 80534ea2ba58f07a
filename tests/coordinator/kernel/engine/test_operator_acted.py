"""An operator's decision comes into the log of a running pipeline, from a machine that its lock does not reach."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import MemoryPipeline, acting, started
from tpc import failpoints
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.notices import Notice, Notices, Turn
from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED, exit_code_for
from tpc.errors import FencedError, OperatorActedError
from tpc.history import Action, Resolution
from tpc.json import JSONObject
from tpc.records import RecordKind
from tpc.sink import Verdict

ACCEPTED = {"sink": "a", "columns": None, "reason": "announced", "operator": "anna"}
GIVEN_UP = Resolution(0, "a", Action.ACCEPT_LOSS, "gone", "anna").to_json()


def put(pipeline: MemoryPipeline, kind: RecordKind, body: JSONObject) -> None:
    journal = Journal(pipeline.log)
    journal.open()
    journal.append(kind, body)


def ended(pipeline: MemoryPipeline, epoch: int) -> OperatorActedError:
    """What ends the pipeline in `epoch`, by a code after which a supervisor starts it again."""
    with pytest.raises(OperatorActedError, match="an operator has put a decision into the log") as caught:
        pipeline.run(epoch)
    assert exit_code_for(caught.value) == exit_code_for(pickle.loads(pickle.dumps(caught.value))) == 1
    assert "restart the pipeline" in caught.value.remedy
    assert "current leader" not in caught.value.safe
    return caught.value


def test_the_pipeline_ends_before_its_next_decision_and_its_next_start_goes_on() -> None:
    pipeline = started()
    pipeline.run(0)
    put(pipeline, RecordKind.ACCEPTANCE, ACCEPTED)
    assert "epoch 1 is not decided and nothing of it is visible" in ended(pipeline, 1).safe
    assert pipeline.sinks[0].prepared == {}  # its branch is undone, though it ends fenced
    pipeline.restarted()
    pipeline.run(1)
    assert [handle.epoch for handle in pipeline.sinks[0].committed.values()] == [0, 1]


def test_a_decision_in_the_slot_of_an_intent_shows_that_the_epoch_is_not_decided() -> None:
    pipeline = started()

    def operator(where: Mapping[str, Any]) -> None:
        if where["kind"] == "intent":
            failpoints.install({})
            put(pipeline, RecordKind.ACCEPTANCE, ACCEPTED)

    with acting("log.put", operator), pytest.raises(OperatorActedError, match="holds an operator's decision") as caught:
        pipeline.run(0)
    assert caught.value.epoch == 0
    assert pipeline.sinks[0].prepared == {}


def test_a_decision_right_after_the_intent_leaves_the_epoch_to_the_next_start() -> None:
    pipeline = started()

    def operator(where: Mapping[str, Any]) -> None:
        if where["kind"] == "intent":
            put(pipeline, RecordKind.ACCEPTANCE, ACCEPTED)

    with acting("log.stored", operator), pytest.raises(OperatorActedError):
        pipeline.run(0)
    assert len(pipeline.sinks[0].prepared) == 1
    pipeline.restarted()
    assert len(pipeline.sinks[0].committed) == 1


def test_what_is_given_up_while_its_sink_is_asked_again_is_ended_by_the_next_start() -> None:
    pipeline = started()
    pipeline.sinks[0].answers = [Verdict.UNKNOWN]
    pipeline.sinks[0].on_commit = lambda: put(pipeline, RecordKind.RESOLUTION, GIVEN_UP)
    error = ended(pipeline, 0)
    assert "epoch 0 is decided and stays so" in error.safe
    assert "the next start acts on the operator's decision" in error.safe
    pipeline.sinks[0].on_commit = lambda: None
    pipeline.restarted()
    assert [(len(sink.prepared), len(sink.committed)) for sink in pipeline.sinks] == [(0, 0), (0, 1)]


def test_a_coordinator_that_has_begun_after_the_decision_leads() -> None:
    pipeline = started()
    pipeline.run(0)
    put(pipeline, RecordKind.ACCEPTANCE, ACCEPTED)
    pipeline.somebody_takes_over()
    with pytest.raises(FencedError, match="another coordinator has taken over") as caught:
        pipeline.run(1)
    assert exit_code_for(caught.value) == EXIT_FENCED


def test_a_coordinator_that_begins_after_the_watch_has_seen_the_decision_leads() -> None:
    pipeline = started(watch_interval_s=0.01)
    runner = pipeline.runner()

    def others_act() -> None:
        put(pipeline, RecordKind.ACCEPTANCE, ACCEPTED)
        assert runner.cancelled.wait(10)
        pipeline.somebody_takes_over()

    runner.on_prepared = others_act
    with pytest.raises(FencedError) as caught:
        run_epoch(pipeline.engine, 0, runner)
    assert exit_code_for(caught.value) == EXIT_FENCED


def test_who_watches_a_quiet_pipeline_is_told_the_same() -> None:
    pipeline = started()
    put(pipeline, RecordKind.ACCEPTANCE, ACCEPTED)
    assert isinstance(pipeline.engine.fenced(), OperatorActedError)


def test_a_notice_of_it_is_of_a_failure() -> None:
    pipeline = started()
    told: list[Notice] = []
    notices = Notices(pipeline.clock)
    pipeline.engine.observe = lambda transition: told.extend([n for n in [notices.of(transition)] if n is not None])
    put(pipeline, RecordKind.ACCEPTANCE, ACCEPTED)
    ended(pipeline, 0)
    assert [notice.turn for notice in told][-1] is Turn.FAILED
