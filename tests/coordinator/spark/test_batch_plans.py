"""What Spark's files say of the batch that runs, against what was decided and what the query itself runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.builders import begun, complete, intent, manifest
from tpc.coordinator.spark.overwritten_offsets import check_batch
from tpc.coordinator.spark.running_plan import RunningPlan
from tpc.errors import TransientError
from tpc.history import History
from tpc.manifest import EpochInput


def epoch_input(start: int, end: int, made_at: int = 5) -> EpochInput:
    return EpochInput(f'v1\n{{"batchTimestampMs":{made_at}}}\n{end}', (str(start),), (str(end),))


RUNNING = RunningPlan(frozenset({"30"}), 5)
"""The batch that the query runs is planned up to 30."""
HISTORY: History = begun(
    *(
        record
        for epoch in range(3)
        for record in (
            intent(replace(manifest(epoch), epoch_input=epoch_input(10 * epoch, 10 * epoch + 10))),
            complete(epoch),
        )
    )
)
"""Epochs 0, 1 and 2, of ten rows each."""


@pytest.mark.parametrize(
    ("epoch", "says"),
    [(2, epoch_input(20, 30)), (3, epoch_input(30, 30)), (5, epoch_input(0, 30))],
    ids=["run again", "the next", "of whose past nothing is known"],
)
def test_a_batch_that_is_what_was_decided_and_what_the_query_runs_goes_on(epoch: int, says: EpochInput) -> None:
    check_batch(HISTORY, epoch, says, RUNNING)


@pytest.mark.parametrize(
    ("epoch", "says", "overwritten", "what"),
    [
        (3, epoch_input(20, 30), 2, r"batch 3 begins at \['20'\], epoch 2 ended at \['30'\]"),
        (3, epoch_input(0, 30), 2, r"batch 3 begins at \['0'\], epoch 2 ended at \['30'\]"),
        (2, epoch_input(20, 30, made_at=6), 2, "offsets/2 is not what was decided"),
        (2, epoch_input(20, 31), 2, r"not what was decided \(decided: \['30'\], Spark: \['31'\]\)"),
        (3, epoch_input(30, 40), 3, "offsets/3 is not the plan that the query runs"),
        (3, epoch_input(30, 30, made_at=6), 3, "offsets/3 is not the plan that the query runs"),
    ],
    ids=["from before its start", "from the first", "another time", "another end", "not run", "run at another time"],
)
def test_a_plan_that_another_driver_has_written_ends_the_batch_before_anything_was_done(
    epoch: int, says: EpochInput, overwritten: int, what: str
) -> None:
    with pytest.raises(TransientError, match=what) as caught:
        check_batch(HISTORY, epoch, says, RUNNING)
    assert caught.value.epoch == overwritten
    assert "restart the pipeline" in caught.value.remedy
