"""A power cut takes what was not synced, and nothing else."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.spark_state import StateOnDisk
from tpc.chaos.faults import cut_disk
from tpc.chaos.faults.cut_disk import EXT4, XFS, CutDisk
from tpc.coordinator.spark.checkpoint_fsync import CheckpointFsync
from tpc.coordinator.spark.local_files import LocalFiles
from tpc.coordinator.spark.query_log import SparkLog
from tpc.coordinator.spark.state_store_files import StateFiles
from tpc.errors import LocalStackError
from tpc.support import durable_files


@pytest.fixture(params=[EXT4, XFS])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CutDisk]:
    if reason := cut_disk.why_not(request.param):
        pytest.skip(reason)
    with cut_disk.mounted(tmp_path / "disk", request.param) as disk:
        yield disk


def test_a_cut_takes_what_was_not_synced_again_and_again(disk: CutDisk) -> None:
    for number in range(3):
        synced, loose = disk.path / f"synced-{number}", disk.path / f"loose-{number}"
        for path in (synced, loose):
            path.write_text("content")
        durable_files.sync(synced)
        durable_files.sync(disk.path)
        disk.cut()
        with pytest.raises(OSError, match="Input/output error"):
            (disk.path / "late").write_text("too late")
        disk.revive()
        assert synced.read_text() == "content"
        assert not loose.exists() or not loose.read_text()
    assert disk.cuts == 3


def test_a_disk_that_is_kept_busy_is_told_with_who_keeps_it(disk: CutDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_disk, "_BUSY_TIMEOUT_S", 0.1)
    kept = disk.path / "kept"
    with kept.open("w") as file:
        disk.cut()
        with pytest.raises(LocalStackError, match=rf"process {os.getpid()} \(.+\) keeps {kept}"):
            disk.revive()
        assert not file.closed
    disk.revive()


def test_a_remount_without_a_cut_is_called_none(disk: CutDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "ioctl", lambda *_: 0)
    disk.cut()
    with pytest.raises(LocalStackError, match="that was no power cut"):
        disk.revive()


@pytest.mark.parametrize("synced", [True, False])
def test_state_survives_if_it_was_made_durable_and_only_then(disk: CutDisk, *, synced: bool) -> None:
    state = StateOnDisk(disk.path)
    (disk.path / "commits").mkdir()
    for batch in range(3):
        state.run(batch)
        state.snapshot(batch, 0)
        durable_files.create(disk.path / "commits" / str(batch), state.commit_text(batch).encode())
    durable_files.sync(disk.path / "commits")
    if synced:
        CheckpointFsync(disk.path).begin().wait()
    durable_files.sync(disk.path)
    disk.cut()
    disk.revive()
    wrong = StateFiles(SparkLog(LocalFiles(disk.path))).why_not_whole(2)
    assert (wrong is None) is synced, wrong
