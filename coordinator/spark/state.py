"""Do the state stores on disk belong to the epoch that Spark will go on from?

With state checkpoint format v2 every version of a state store has a unique id, and `commits/N` names the ids of
the versions that batch N made. A state directory of another moment put in place has other ids: found here, on
restore, before a task fails on a missing file or computes from the wrong state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tpc.coordinator.spark.query_log import SparkLog
from tpc.errors import HistoryMismatchError
from tpc.history import History


def check_state(history: History, spark: SparkLog, committed: int) -> None:
    """Every state store that `commits/N` names must have a file of that version and id.

    Raises `HistoryMismatchError` naming the first one that has not. State format v1 names no ids: nothing to check.
    """
    text = spark.read("commits", committed)
    if text is None or history.last_intent is None:
        return
    state = spark.checkpoint / "state"
    for operator, partition, ids in _named_stores(text):
        names = {path.name for path in (state / operator / str(partition)).glob("**/*") if path.is_file()}
        for unique_id in ids:
            if not any(name.startswith(f"{committed + 1}_{unique_id}") for name in names):
                raise _foreign(state / operator / str(partition), committed, unique_id)


def _named_stores(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """Operator, partition and the unique ids of its stores, from the text of a `commits/N` file."""
    body = json.loads(text.split("\n", 1)[1])
    for operator, partitions in (body.get("stateUniqueIds") or {}).items():
        for partition, ids in enumerate(partitions):
            yield operator, partition, ids


def _foreign(directory: Path, committed: int, unique_id: str) -> HistoryMismatchError:
    return HistoryMismatchError(
        f"the state in {directory} is not of the checkpoint: batch {committed} made version {committed + 1} "
        f"with id {unique_id}, which is not there",
        epoch=committed,
        remedy="put the state directory of this checkpoint back; state and offsets must be of one moment.",
    )
