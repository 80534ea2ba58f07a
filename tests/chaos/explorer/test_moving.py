"""The search through a driver that moves: it sees every way, and what each look at Spark's plans is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tpc.chaos.explorer import moving
from tpc.chaos.explorer.moving import MovingScope
from tpc.coordinator.spark import overwritten_offsets, reconcile
from tpc.coordinator.spark.running_plan import RunningPlan

pytestmark = pytest.mark.slow  # much computing


def test_no_forgotten_driver_s_late_file_loses_or_doubles_a_row_or_stops_the_pipeline() -> None:
    exploration = MovingScope().run()
    assert (exploration.violated, exploration.what) == (None, "")
    assert exploration.states > 3_000
    assert exploration.goals > 200


def test_without_a_fault_the_rows_are_read_in_as_many_ways_as_a_source_may_grow() -> None:
    assert MovingScope(moving_faults=0).run().goals == 3  # 1 and 1 and 1, 1 and 2, 2 and 1


def any_start(check: Callable[..., None]) -> Callable[..., None]:
    """The look at a batch, without where it begins."""

    def checked(history: Any, epoch: int, epoch_input: Any, running: Any) -> None:
        before = history.manifests.get(epoch - 1)
        check(
            history,
            epoch,
            epoch_input if before is None else replace(epoch_input, start=before.epoch_input.end),
            running,
        )

    return checked


BROKEN = {
    "a late plan stays": (reconcile, "overwritten_offsets", lambda *_: [], "live"),
    "the plan in memory is not looked at": (RunningPlan, "is_written_in", lambda *_: True, "exactly-once"),
    "the batch may begin anywhere": (moving, "check_batch", any_start(overwritten_offsets.check_batch), "exactly-once"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_look_that_is_left_out_is_missed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken, violated = BROKEN[what]
    monkeypatch.setattr(where, name, broken)
    exploration = MovingScope().run()
    assert exploration.violated == violated
    assert any("arrives" in step for step in exploration.trace)
