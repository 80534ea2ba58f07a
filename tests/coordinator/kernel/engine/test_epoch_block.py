"""The block of an epoch: what holds when a runtime leaves it at each of its steps, by an error or too early."""

from __future__ import annotations

import pytest

from tests.support.memory_pipeline import MemoryPipeline, started
from tpc.errors import StateMachineError
from tpc.states import Phase


def prepared(pipeline: MemoryPipeline) -> list[int]:
    """How many branches each sink holds that are neither committed nor aborted."""
    return [len(sink.prepared) for sink in pipeline.sinks]


def test_a_decided_epoch_is_committed_only_by_finish() -> None:
    pipeline = started()
    rows = pipeline.runner()
    with pipeline.engine.epoch(0, rows) as epoch:
        epoch.decide(rows.write(0, epoch.generation), rows.report)
        assert pipeline.record_kinds() == ["generation", "intent"]
        assert prepared(pipeline) == [1, 1]
        epoch.finish()
        assert pipeline.record_kinds() == ["generation", "intent", "complete"]
        assert prepared(pipeline) == [0, 0]


def test_an_error_before_the_pass_decides_nothing() -> None:
    pipeline = started()
    with pytest.raises(ZeroDivisionError), pipeline.engine.epoch(0, pipeline.runner()):
        raise ZeroDivisionError
    assert pipeline.record_kinds() == ["generation"]
    assert pipeline.engine.state.phase is Phase.STOPPED


def test_an_error_after_the_pass_and_before_decide_aborts_what_it_has_prepared() -> None:
    pipeline = started()
    rows = pipeline.runner()
    with pytest.raises(ZeroDivisionError), pipeline.engine.epoch(0, rows) as epoch:
        rows.write(0, epoch.generation)
        raise ZeroDivisionError
    assert pipeline.record_kinds() == ["generation"]
    assert prepared(pipeline) == [0, 0]


@pytest.mark.parametrize("error", [ZeroDivisionError("of the runtime"), None], ids=["by an error", "too early"])
def test_a_block_left_between_decide_and_finish_aborts_nothing_and_the_next_start_commits(
    error: Exception | None,
) -> None:
    pipeline = started()
    rows = pipeline.runner()
    with (
        pytest.raises(StateMachineError if error is None else type(error)),
        pipeline.engine.epoch(0, rows) as epoch,
    ):
        epoch.decide(rows.write(0, epoch.generation), rows.report)
        if error is not None:
            raise error
    assert prepared(pipeline) == [1, 1]
    assert pipeline.engine.state.phase is Phase.STOPPED
    pipeline.restarted()
    assert prepared(pipeline) == [0, 0]
    assert all(len(sink.committed) == 1 for sink in pipeline.sinks)
    assert pipeline.record_kinds() == ["generation", "intent", "generation", "complete"]


def test_a_block_left_without_a_decision_is_an_error_and_aborts_what_is_prepared() -> None:
    pipeline = started()
    rows = pipeline.runner()
    with pytest.raises(StateMachineError, match="epoch 0 was left before"), pipeline.engine.epoch(0, rows) as epoch:
        rows.write(0, epoch.generation)
    assert pipeline.record_kinds() == ["generation"]
    assert prepared(pipeline) == [0, 0]


def test_finish_without_a_decision_is_an_error_and_aborts_what_is_prepared() -> None:
    pipeline = started()
    rows = pipeline.runner()
    with pytest.raises(StateMachineError, match="is not decided"), pipeline.engine.epoch(0, rows) as epoch:
        rows.write(0, epoch.generation)
        epoch.finish()
    assert pipeline.record_kinds() == ["generation"]
    assert prepared(pipeline) == [0, 0]


def test_a_second_decision_is_an_error_and_commits_nothing() -> None:
    pipeline = started()
    rows = pipeline.runner()
    with pytest.raises(StateMachineError, match="ended twice"), pipeline.engine.epoch(0, rows) as epoch:
        manifest = rows.write(0, epoch.generation)
        epoch.decide(manifest, rows.report)
        epoch.decide(manifest, rows.report)
    assert pipeline.record_kinds() == ["generation", "intent"]
    assert prepared(pipeline) == [1, 1]


def test_an_interrupt_within_the_block_leaves_the_epoch_to_the_next_start() -> None:
    pipeline = started()
    rows = pipeline.runner()
    with pytest.raises(KeyboardInterrupt), pipeline.engine.epoch(0, rows) as epoch:
        rows.write(0, epoch.generation)
        raise KeyboardInterrupt
    assert prepared(pipeline) == [1, 1]
    pipeline.restarted()
    assert prepared(pipeline) == [0, 0]
    assert pipeline.record_kinds() == ["generation", "generation"]


def test_after_an_interrupt_between_decide_and_finish_a_coordinator_commits_no_more() -> None:
    pipeline = started()
    rows = pipeline.runner()
    with pytest.raises(KeyboardInterrupt), pipeline.engine.epoch(0, rows) as epoch:
        epoch.decide(rows.write(0, epoch.generation), rows.report)
        raise KeyboardInterrupt
    with pytest.raises(StateMachineError), pipeline.engine.epoch(1, rows):
        pytest.fail("an epoch began in the middle of another one")
    assert prepared(pipeline) == [1, 1]
    pipeline.restarted()
    assert prepared(pipeline) == [0, 0]
    assert all(len(sink.committed) == 1 for sink in pipeline.sinks)
