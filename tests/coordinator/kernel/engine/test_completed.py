"""What sinks are told of complete epochs: after the record that says so, never before; again after a takeover."""

from __future__ import annotations

import pytest

from tests.support.memory_pipeline import MemoryPipeline, acting, started
from tpc.errors import RepairNeededError
from tpc.sink import Verdict


class DeadError(Exception):
    """What a coordinator dies of."""


def die(_where: object) -> None:
    raise DeadError


def told(pipeline: MemoryPipeline) -> list[list[int]]:
    """Which epochs each sink has heard to be complete."""
    return [sink.completed for sink in pipeline.sinks]


def test_every_sink_is_told_of_each_complete_epoch_also_one_without_rows_in_it() -> None:
    pipeline = started()
    pipeline.run(0, feeds=["a"])
    pipeline.run(1)
    assert told(pipeline) == [[0, 1], [0, 1]]


def test_nothing_is_told_of_an_epoch_that_is_decided_and_waits_for_a_repair_in_another_sink() -> None:
    pipeline = started()
    pipeline.run(0)
    pipeline.sinks[1].answers = [Verdict.LOST]
    with pytest.raises(RepairNeededError):
        pipeline.run(1)
    assert told(pipeline) == [[0], [0]]


def test_the_record_stands_before_anybody_is_told() -> None:
    pipeline = started()
    with acting("epoch.committed", die), pytest.raises(DeadError):
        pipeline.run(0)
    assert told(pipeline) == [[], []]


def test_what_a_dead_coordinator_could_not_tell_the_next_one_tells() -> None:
    pipeline = started()
    pipeline.run(0)
    for sink in pipeline.sinks:
        sink.completed.clear()
    pipeline.restarted()
    assert told(pipeline) == [[0], [0]]


def test_a_takeover_tells_of_the_epochs_before_a_pending_one_and_of_that_when_it_is_complete() -> None:
    pipeline = started()
    pipeline.run(0)
    with acting("epoch.decided", die), pytest.raises(DeadError):
        pipeline.run(1)
    for sink in pipeline.sinks:
        sink.completed.clear()
    heard: list[list[int]] = []
    pipeline.sinks[0].on_commit = lambda: heard.append(list(pipeline.sinks[0].completed))
    pipeline.restarted()
    assert heard == [[0]]
    assert told(pipeline) == [[0, 1], [0, 1]]
