"""What follows from the recording of a case: which branches were prepared, and when a new epoch was complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpc.chaos.faults import hits
from tpc.chaos.faults.hits import StepHit


def hit(step: str, life: int = 0, at: float = 0.0, **where: Any) -> StepHit:
    return StepHit(at, 100, life, step, where)


def branch(sink: str, partition: int, life: int = 0, epoch: int = 1) -> StepHit:
    return hit("pass.prepared", life, epoch=epoch, sink=sink, partition=partition)


TWO = [branch("kafka", 0), branch("rows", 0)]


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "hits"
    assert hits.read(path) == []
    for one in TWO:
        hits.append(path, one)
    assert hits.read(path) == TWO


def test_a_branch_is_prepared_from_its_prepare_on() -> None:
    assert hits.prepared(TWO, 1) == 2
    assert hits.prepared(TWO, 2) == 0


def test_a_branch_that_is_committed_is_prepared_no_longer() -> None:
    assert hits.prepared([*TWO, hit("sink.committed", sink="kafka", epoch=1)], 1) == 1
    assert hits.prepared([*TWO, hit("epoch.committed", epoch=1)], 1) == 0


def test_the_commit_of_another_epoch_changes_nothing() -> None:
    assert hits.prepared([*TWO, hit("sink.committed", sink="kafka", epoch=0)], 1) == 2


def test_branches_of_every_epoch_are_counted_where_no_epoch_is_named() -> None:
    seen = [*TWO, branch("kafka", 0, epoch=2), hit("sink.committed", sink="kafka", epoch=2), hit("recovery.claim")]
    assert hits.prepared(seen) == 2
    assert hits.prepared([*seen, hit("epoch.committed", epoch=1)]) == 0


def test_a_sweep_takes_the_branches_of_earlier_lives_only() -> None:
    seen = [*TWO, branch("files", 1, life=1), hit("recovery.swept", life=1, generation=2)]
    assert hits.prepared(seen, 1) == 1


def test_a_task_counts_what_the_other_tasks_of_its_life_have_prepared() -> None:
    seen = [*TWO, branch("kafka", 1), branch("tallies", -1), branch("files", 0, life=1)]
    assert hits.prepared_by_others(seen, life=0, epoch=1, partition=1) == 2


def test_a_decided_epoch_that_is_finished_is_no_new_one() -> None:
    seen = [
        hit("epoch.prepared", 0, 1.0, epoch=1),
        hit("epoch.completed", 1, 2.0, epoch=1),
        hit("epoch.prepared", 1, 3.0, epoch=2),
        hit("epoch.completed", 1, 4.0, epoch=2),
    ]
    assert hits.first_new_epoch_at(seen, 1) == 4.0
    assert hits.first_new_epoch_at(seen[:2], 1) is None
