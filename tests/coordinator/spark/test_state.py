"""What a commit's state rests on: changelogs back to a snapshot, and what describes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.spark_state import StateOnDisk, write
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.state_store_files import StateFiles

LAST = 4


@pytest.fixture
def state(tmp_path: Path) -> StateOnDisk:
    made = StateOnDisk(tmp_path, stores=("left", "right"))
    (tmp_path / "commits").mkdir()
    for batch in range(LAST + 1):
        made.run(batch)
        (tmp_path / "commits" / str(batch)).write_text(made.commit_text(batch))
    return made


def why_not_whole(state: StateOnDisk, batch: int = LAST) -> str | None:
    return StateFiles(SparkLog(LocalFiles(state.checkpoint))).why_not_whole(batch)


def in_the_way(state: StateOnDisk) -> list[Path]:
    return [state.checkpoint / name for name in StateFiles(SparkLog(LocalFiles(state.checkpoint))).in_the_way()]


def test_state_of_which_nothing_is_missing_is_whole_and_nothing_is_in_the_way(state: StateOnDisk) -> None:
    state.snapshot(2, 0, "left")
    assert (why_not_whole(state), in_the_way(state)) == (None, [])


@pytest.mark.parametrize("batch", range(LAST + 1))
@pytest.mark.parametrize("left", [None, b""])
def test_a_commit_rests_on_every_changelog_back_to_the_first(
    state: StateOnDisk, batch: int, left: bytes | None
) -> None:
    path = state.file(batch, 1, "changelog", "right")
    path.unlink() if left is None else path.write_bytes(left)
    wrong = why_not_whole(state)
    assert wrong is not None
    assert f"made version {batch + 1} with id id{batch}-1right, which is missing or torn" in wrong
    assert all(why_not_whole(state, earlier) is None for earlier in range(batch))


def test_a_commit_rests_on_no_changelog_before_a_snapshot(state: StateOnDisk) -> None:
    state.snapshot(2, 1, "right")
    for batch in (0, 1, 2):
        state.file(batch, 1, "changelog", "right").unlink()
    assert why_not_whole(state) is None
    assert why_not_whole(state, 1) is not None


def test_a_torn_snapshot_beside_whole_changelogs_is_only_in_the_way(state: StateOnDisk) -> None:
    table = state.snapshot(3, 0, "left")
    os.truncate(table, 0)
    assert why_not_whole(state) is None
    assert in_the_way(state) == [state.file(3, 0, "zip", "left")]


def test_of_versions_whose_commit_is_pruned_any_whole_file_of_the_same_store_will_do(state: StateOnDisk) -> None:
    for batch in (0, 1):
        (state.checkpoint / "commits" / str(batch)).unlink()
    assert why_not_whole(state) is None
    state.file(1, 0, "changelog", "left").unlink()
    wrong = why_not_whole(state)
    assert wrong is not None
    assert "batch 1 made version 2 with id unknown" in wrong


def test_state_with_other_ids_is_not_that_of_the_commit(state: StateOnDisk) -> None:
    path = state.file(LAST, 0, "changelog", "left")
    path.rename(path.with_name(f"{LAST + 1}_another-id.changelog"))
    assert why_not_whole(state) is not None


def test_torn_descriptions_that_spark_writes_anew_are_in_the_way(state: StateOnDisk) -> None:
    torn = [state.operator / "_metadata" / "metadata", state.operator / "0" / "left" / "_metadata" / "schema"]
    for path in torn:
        os.truncate(path, 0)
    assert why_not_whole(state) is None
    assert sorted(in_the_way(state)) == sorted(torn)


@pytest.mark.parametrize("name", ["_metadata/v2/2", "_stateSchema/default/2_some-id"])
def test_a_torn_description_of_versions_is_missed_by_the_commits_from_its_batch_on(
    state: StateOnDisk, name: str
) -> None:
    os.truncate(write(state.operator / name, b"v1\nschema"), 0)
    assert why_not_whole(state, 1) is None
    wrong = why_not_whole(state, 2)
    assert wrong is not None
    assert "which describes the state since batch 2, is torn" in wrong


def test_a_commit_that_names_no_ids_misses_nothing(state: StateOnDisk) -> None:
    (state.checkpoint / "commits" / str(LAST)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    state.file(LAST, 0, "changelog", "left").unlink()
    assert why_not_whole(state) is None
