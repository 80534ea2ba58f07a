"""Sweeps: who may abort what, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.core.builders import JOB
from tests.support.epochs import run_epoch
from tests.support.memory_pipeline import MemoryPipeline, acting, started
from tpc.coordinator.kernel.feeding.pass_report import PassReport
from tpc.errors import (
    FencedError,
    HistoryMismatchError,
    TransientError,
)
from tpc.handles import PipelineId
from tpc.sink import InDoubt, Verdict
from tpc.states import Phase

UNKNOWN, REFUSED, LOST = Verdict.UNKNOWN, Verdict.REFUSED, Verdict.LOST


# At a start ----------------------------------------------------------------------------------------------------------


def test_recovery_aborts_branches_of_older_generations() -> None:
    pipeline = started()
    old = [pipeline.sinks[0].plant(5), pipeline.sinks[0].plant(None, partition=3)]
    pipeline.restarted()
    assert pipeline.sinks[0].aborted() == sorted(old)


def die(where: Mapping[str, Any]) -> None:
    raise KeyboardInterrupt


def test_recovery_leaves_what_the_pending_intent_names_until_it_is_committed() -> None:
    pipeline = started()
    with acting("epoch.decided", die), pytest.raises(KeyboardInterrupt):
        pipeline.run(0)
    pipeline.restarted(recover=False).claim_and_sweep()
    assert [(len(sink.prepared), sink.aborted()) for sink in pipeline.sinks] == [(1, []), (1, [])]


def test_branches_of_another_incarnation_or_pipeline_are_left_alone() -> None:
    pipeline = started()
    pipeline.sinks[0].plant(0, pipeline=PipelineId("job", 2))
    pipeline.sinks[0].plant(0, pipeline=PipelineId("job-2"))
    pipeline.restarted()
    assert len(pipeline.sinks[0].prepared) == 2


def test_a_sweep_that_fails_at_start_stops_the_start() -> None:
    pipeline = started()
    pipeline.sinks[0].plant(5)
    pipeline.sinks[0].abort_error = TransientError("down")
    with pytest.raises(TransientError) as caught:
        pipeline.restarted()
    assert (caught.value.sink, caught.value.pipeline) == ("a", str(JOB))


# Between the epochs --------------------------------------------------------------------------------------------------


def test_own_losers_at_or_below_the_last_complete_epoch_are_swept() -> None:
    pipeline = started()
    pipeline.run(0, 1)
    losers = [pipeline.sinks[0].plant(epoch, partition=9) for epoch in (0, 1)]
    pipeline.wait_for_sweep()
    assert pipeline.sinks[0].aborted() == losers


def test_a_branch_of_its_own_running_epoch_is_left_alone() -> None:
    pipeline = started()
    pipeline.run(0)
    running = pipeline.sinks[0].plant(1)
    pipeline.wait_for_sweep()
    assert list(pipeline.sinks[0].prepared) == [running]


def test_a_branch_of_its_own_whose_epoch_the_system_does_not_tell_is_swept_between_the_passes() -> None:
    pipeline = started()
    pipeline.run(0)
    unknown = pipeline.sinks[0].plant(None)
    pipeline.wait_for_sweep()
    assert pipeline.sinks[0].aborted() == [unknown]


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
    runner.report = PassReport(repeated_tasks=True)
    loser = pipeline.sinks[0].plant(0, partition=9)
    run_epoch(pipeline.engine, 0, runner)
    assert pipeline.sinks[0].aborted() == [loser]


def test_a_sweep_that_fails_in_quiet_hours_is_tried_again_at_the_next_one() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[0].plant(0, partition=9)
    pipeline.sinks[0].abort_error = TransientError("down")
    pipeline.wait_for_sweep()
    assert pipeline.engine.state.phase is Phase.READY
    pipeline.sinks[0].abort_error = None
    pipeline.wait_for_sweep()
    assert pipeline.sinks[0].prepared == {}


# Who does not lead sweeps nothing ------------------------------------------------------------------------------------


def test_a_branch_of_a_higher_generation_means_fenced_and_nothing_is_aborted() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[0].plant(0, partition=9)
    pipeline.sinks[1].plant(1, generation=2)
    with pytest.raises(FencedError, match="generation 2 exists, this coordinator is generation 1") as caught:
        pipeline.wait_for_sweep()
    assert caught.value.sink == "b"
    assert pipeline.sinks[0].aborted() == []


def test_nothing_is_aborted_when_the_log_goes_on_between_the_listing_and_the_abort() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[0].plant(0, partition=9)
    pipeline.sinks[0].on_listed = pipeline.somebody_takes_over
    with pytest.raises(FencedError, match="the log goes on after slot 3"):
        pipeline.wait_for_sweep()
    assert pipeline.sinks[0].aborted() == []


# Evidence ------------------------------------------------------------------------------------------------------------


def lose_commit(
    pipeline: MemoryPipeline, sink: int, epoch: int, *, tells_epoch: bool = True, only_copy: bool = True
) -> str:
    """The branch of a complete epoch is prepared again: its system went back, and a later commit was made by hand."""
    [branch] = pipeline.engine.journal.history.manifests[epoch].committables("ab"[sink])
    handle = branch.handle
    told = epoch if tells_epoch else None
    doubt = InDoubt(branch.resource, handle.pipeline, handle.generation, handle.sink, told, only_copy=only_copy)
    pipeline.sinks[sink].prepared[branch.resource] = doubt
    return branch.resource


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_branch_of_a_complete_epoch_that_is_prepared_again_ends_the_pipeline_and_stays(epoch: int) -> None:
    pipeline = started(sweep_interval_s=0.0)
    pipeline.run(0, 1)
    lost = lose_commit(pipeline, 0, epoch)
    loser = pipeline.sinks[1].plant(0, partition=3)
    with pytest.raises(
        HistoryMismatchError, match=f"epoch {epoch} is complete, and its commits are lost in the sink"
    ) as caught:
        pipeline.engine.upkeep()
    assert (caught.value.sink, caught.value.epoch) == ("a", epoch)
    assert "commit by hand" in caught.value.remedy
    assert (lost in pipeline.sinks[0].prepared, loser in pipeline.sinks[1].prepared) == (True, True)


def test_a_branch_of_a_complete_epoch_is_not_taken_for_one_of_an_older_term_either() -> None:
    pipeline = started()
    pipeline.run(0)
    lost = lose_commit(pipeline, 0, 0)
    with pytest.raises(
        HistoryMismatchError,
        match=r"its commits are lost in the sink, which still holds these branches prepared: tpc~job~1~",
    ):
        pipeline.restarted()
    assert lost in pipeline.sinks[0].prepared


def test_the_rest_of_a_committed_branch_is_swept_unless_it_is_the_only_copy() -> None:
    """A backup, or a power cut, may have brought its staged file back."""
    pipeline = started()
    pipeline.run(0)
    left = lose_commit(pipeline, 0, 0, only_copy=False)
    pipeline.restarted()
    assert pipeline.sinks[0].aborted() == [left]


def test_a_branch_with_the_name_of_a_complete_one_is_swept_where_names_come_again() -> None:
    pipeline = started()
    pipeline.run(0)
    again = lose_commit(pipeline, 0, 0, tells_epoch=False)
    pipeline.restarted()
    assert pipeline.sinks[0].aborted() == [again]


def test_a_sink_that_shows_less_than_the_log_says_is_not_swept_and_ends_the_pipeline() -> None:
    pipeline = started(sweep_interval_s=0.0)
    pipeline.run(0)
    pipeline.sinks[0].marker = None
    leftovers = [pipeline.sinks[0].plant(None, partition=3), pipeline.sinks[1].plant(None, partition=3)]
    with pytest.raises(HistoryMismatchError, match="reports no committed epoch, the log says epoch 0") as caught:
        pipeline.engine.upkeep()
    assert caught.value.sink == "a"
    assert [sink.aborted() for sink in pipeline.sinks] == [[], []]
    assert leftovers[0] in pipeline.sinks[0].prepared


def test_a_sink_that_shows_what_the_log_says_is_swept() -> None:
    pipeline = started(sweep_interval_s=0.0)
    pipeline.run(0)
    leftover = pipeline.sinks[0].plant(None, partition=3)
    pipeline.engine.upkeep()
    assert pipeline.sinks[0].aborted() == [leftover]
