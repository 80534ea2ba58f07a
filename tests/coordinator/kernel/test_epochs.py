"""The history of epochs as users see it: what each dict says, and which durations belong to which epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.builders import begun, intent, manifest
from tpc.coordinator.kernel.epochs import epoch_row, epoch_rows
from tpc.history import History
from tpc.records import RecordKind


def completed(epoch: int, previous: tuple[int, float] | None) -> tuple[RecordKind, dict[str, Any]]:
    """A complete record with times that are seen to be those of its epoch."""
    return RecordKind.COMPLETE, {
        "epoch": epoch,
        "generation": 1,
        "floor": 1,
        "seconds": {"pass": 2.0 + epoch},
        "sink_seconds": {"a": {"write": 1.0 + epoch}},
        "commit_seconds": {"a": 0.5 + epoch},
        "started_at": 10.0 + epoch,
        "completed_at": 13.0 + epoch,
        "previous_complete": None if previous is None else {"epoch": previous[0], "seconds": previous[1]},
    }


@pytest.fixture
def history() -> History:
    """Epochs 0 and 1 are complete, epoch 2 is decided."""
    counts = {"rows": 3, "unrouted": 2, "late": 1, "state_rows": 7, "state_disk_bytes": 700}
    first, last = replace(manifest(0, stateful=True), counts=counts), replace(manifest(2), counts={})
    second = intent(manifest(1, {"a": 2, "b": 0}))
    return begun(intent(first), completed(0, None), second, completed(1, (0, 0.25)), intent(last))


def test_a_complete_epoch_is_told_with_its_counts_and_times(history: History) -> None:
    assert epoch_row(history, 0) == {
        "epoch": 0,
        "status": "complete",
        "generation": 1,
        "rows": 3,
        "late": 1,
        "unrouted": 2,
        "state": {"rows": 7, "disk_bytes": 700},
        "start": ["0"],
        "end": ["1"],
        "sinks": {name: {"rows": 3, "size_bytes": 30, "branches": 1} for name in ("a", "b")},
        "seconds": {"pass": 2.0, "complete": 0.25},
        "sink_seconds": {"a": {"write": 1.0}},
        "commit_seconds": {"a": 0.5},
        "started_at": 10.0,
        "completed_at": 13.0,
        "failure": None,
    }


def test_the_rows_come_oldest_first_and_a_decided_epoch_has_no_times_yet(history: History) -> None:
    rows = epoch_rows(history)
    assert [(row["epoch"], row["status"]) for row in rows] == [(0, "complete"), (1, "complete"), (2, "decided")]
    assert rows[1]["sinks"]["a"] == {"rows": 6, "size_bytes": 60, "branches": 2}
    assert rows[1]["seconds"] == {"pass": 3.0}  # how long its own record took stands in the next one
    decided = rows[2]
    assert (decided["rows"], decided["late"], decided["unrouted"], decided["state"]) == (0, None, 0, None)
    assert (decided["seconds"], decided["sink_seconds"], decided["commit_seconds"]) == ({}, {}, {})
    assert (decided["started_at"], decided["completed_at"]) == (None, None)
    assert "spark_seconds" not in decided


def test_how_long_a_complete_record_took_is_told_of_no_other_epoch() -> None:
    later = begun(intent(manifest(4)), completed(4, None), intent(manifest(5)), completed(5, (3, 0.25)))
    assert "complete" not in epoch_row(later, 4)["seconds"]
