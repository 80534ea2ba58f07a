"""Each partition of a pass is in the epoch once: reports that are doubled or missing end the pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tpc.coordinator.kernel.feeding.branch import BranchReport
from tpc.coordinator.kernel.feeding.partition import PartitionReport
from tpc.coordinator.spark.passes.reports import TaskAttempt, TaskReport, completed, decode, encode
from tpc.errors import DataError, TpcError, TransientError

ROWS = 10


def report(partition: int, *, number: int = 0, error: TpcError | None = None) -> TaskReport:
    """What an attempt at a partition tells; each attempt is a task of its own."""
    done = PartitionReport(partition, ROWS, 0, {"a": BranchReport(rows=ROWS, digest=partition + 1)}, {})
    attempt = TaskAttempt(partition, number, task_id=100 * number + partition, stage=7)
    return TaskReport(attempt, None if error else done, error)


def taken(reports: Sequence[TaskReport], partitions: int) -> list[int] | None:
    """The partitions whose rows enter the epoch, as they come from the executors; None if the pass ends."""
    rows = [(row["sink"], row["payload"]) for each in reports for row in encode(each).to_pylist()]
    try:
        return sorted(done.partition for done in completed(decode(rows), partitions, epoch=3))
    except TransientError as error:
        assert error.epoch == 3
        return None


@pytest.mark.parametrize("partitions", [0, 1, 5])
def test_one_report_of_each_partition_is_the_whole_epoch_in_whatever_order_they_come(partitions: int) -> None:
    reports = [report(partition) for partition in reversed(range(partitions))]
    assert taken(reports, partitions) == list(range(partitions))


@pytest.mark.parametrize(
    ("reported", "partitions"),
    [
        ([(0, 0), (1, 0), (1, 1)], 2),
        ([(0, 0), (0, 0), (1, 0)], 2),
        ([(0, 0), (1, 0), (0, 2), (1, 2)], 2),
        ([(0, 0)], 2),
        ([(1, 0)], 2),
        ([], 1),
        ([(0, 0), (0, 1)], 2),
        ([(0, 0), (2, 0)], 2),
        ([(0, 0), (1, 0), (2, 0)], 2),
        ([(0, 0)], 0),
    ],
    ids=[
        "another attempt at one",
        "the same report twice",
        "a stage twice",
        "the last one missing",
        "the first one missing",
        "nothing",
        "one twice and one missing",
        "another partition in the place of one",
        "one too many",
        "of a pass without partitions",
    ],
)
def test_reports_that_are_not_one_of_each_partition_end_the_pass(
    reported: list[tuple[int, int]], partitions: int
) -> None:
    reports = [report(partition, number=number) for partition, number in reported]
    assert taken(reports, partitions) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=6), st.integers(0, 4))
@example([(0, 0), (1, 0), (1, 1)], 2)
def test_what_enters_an_epoch_is_each_of_its_partitions_once_or_nothing(
    reported: list[tuple[int, int]], partitions: int
) -> None:
    reports = [report(partition, number=number) for partition, number in reported]
    whole = sorted(partition for partition, _ in reported) == list(range(partitions))
    assert taken(reports, partitions) == (list(range(partitions)) if whole else None)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_error_of_any_task_ends_the_pass_whoever_else_has_reported(place: int) -> None:
    reports = [report(0), report(1)]
    reports.insert(place, report(1, number=1, error=TransientError("no answer")))
    with pytest.raises(TransientError, match="no answer"):
        completed(reports, 2, epoch=3)


def test_of_several_errors_one_that_a_restart_does_not_cure_is_told() -> None:
    reports = [report(0, error=TransientError("no answer")), report(1, error=DataError("column id is NULL", sink="a"))]
    with pytest.raises(DataError, match="column id is NULL"):
        completed(reports, 2, epoch=3)
