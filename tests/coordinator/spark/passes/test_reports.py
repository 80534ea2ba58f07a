"""What the reports of a pass tell about attempts that are not among them."""

from __future__ import annotations

from tpc.coordinator.kernel.feeding.partition import PartitionReport
from tpc.coordinator.spark.passes.reports import TaskAttempt, TaskReport, decode, encode, left_losers
from tpc.errors import TransientError


def report(partition: int, task_id: int, *, number: int = 0, error: TransientError | None = None) -> TaskReport:
    done = None if error else PartitionReport(partition, 0, 0, {}, {})
    return TaskReport(TaskAttempt(partition, number, task_id, stage=7), done, error)


def test_first_attempts_one_after_the_other_have_left_none() -> None:
    assert not left_losers([report(1, 34), report(0, 33), report(2, 35)])
    assert not left_losers([])


def test_a_later_attempt_or_an_error_may_have_left_some() -> None:
    assert left_losers([report(0, 33), report(1, 34, number=1)])
    assert left_losers([report(0, 33), report(1, 34, error=TransientError("no answer"))])


def test_a_gap_between_first_attempts_is_a_stage_that_was_tried_again() -> None:
    assert left_losers([report(0, 33), report(1, 34), report(2, 39), report(3, 40)])


def test_an_attempt_is_the_same_on_the_driver() -> None:
    sent = report(1, 34, number=2)
    rows = encode(sent).to_pylist()
    assert decode([(row["sink"], row["payload"]) for row in rows]) == [sent]
