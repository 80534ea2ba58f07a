"""What an intent rests on is durable before it: recorded are the files and directories that were fsynced."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.spark_state import StateOnDisk
from tpc.coordinator.spark.checkpoint_fsync import CheckpointFsync
from tpc.errors import TransientError
from tpc.support import durable_files


class Disk:
    """Stands in for a disk: knows which inodes have been fsynced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[int] = []
        self.broken: Path | None = None
        self.really = os.fsync
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        if self.broken is not None and self.broken.stat().st_ino == inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.synced.append(inode)

    def loose(self, paths: Iterable[Path]) -> list[Path]:
        """Those that a power cut would take."""
        return [path for path in paths if path.stat().st_ino not in self.synced]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def state(tmp_path: Path) -> StateOnDisk:
    made = StateOnDisk(tmp_path, stores=("left", "right"))
    for batch in range(3):
        made.run(batch)
    made.snapshot(1, 0, "left")
    return made


@pytest.mark.parametrize("folder", ["state", "sources"])
def test_everything_in_the_folder_is_durable_when_the_intent_is_put(
    disk: Disk, state: StateOnDisk, folder: str
) -> None:
    fsync = CheckpointFsync(state.checkpoint)
    fsync.begin().wait()
    assert disk.loose([state.checkpoint / folder, *(state.checkpoint / folder).rglob("*")]) == []


@pytest.mark.parametrize("folder", ["state", "sources"])
def test_so_is_what_a_later_batch_has_made_and_only_that_is_asked_for(
    disk: Disk, state: StateOnDisk, folder: str
) -> None:
    fsync = CheckpointFsync(state.checkpoint)
    fsync.begin().wait()
    before = {path for path in state.checkpoint.rglob("*") if path.is_file()}
    disk.synced.clear()
    state.run(3)
    state.snapshot(2, 1, "right")
    fsync.begin().wait()
    new = [path for path in (state.checkpoint / folder).rglob("*") if path.is_file() and path not in before]
    assert new
    assert disk.loose([*new, *(path.parent for path in new)]) == []
    assert [path for path in before if path.stat().st_ino in disk.synced] == []


def test_a_file_that_comes_within_one_tick_of_the_file_system_s_clock_is_not_missed(
    disk: Disk, state: StateOnDisk
) -> None:
    fsync, log = CheckpointFsync(state.checkpoint), state.checkpoint / "sources" / "0"
    fsync.begin().wait()
    ticked = log.stat()
    late = log / "3"
    late.write_text("v1")
    os.utime(log, ns=(ticked.st_atime_ns, ticked.st_mtime_ns))
    fsync.begin().wait()
    assert disk.loose([late]) == []


def test_a_file_that_spark_still_copied_is_made_durable_again_and_then_left_alone(
    disk: Disk, state: StateOnDisk
) -> None:
    fsync, copied = CheckpointFsync(state.checkpoint), state.checkpoint / "state" / "0" / "0" / "SSTs" / "000012-id.sst"
    copied.parent.mkdir(parents=True, exist_ok=True)
    copied.write_bytes(b"the beginning")
    fsync.begin().wait()
    os.utime(copied.parent, (0, 0))  # what a file holds does not change the directory that it is in
    fsync.begin().wait()

    with copied.open("ab") as file:
        file.write(b" and the rest")
    disk.synced.clear()
    fsync.begin().wait()
    assert disk.loose([copied]) == []

    disk.synced.clear()
    fsync.begin().wait()
    assert disk.loose([copied]) == [copied]


def test_quiet_directories_are_not_listed_again(
    disk: Disk, state: StateOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in [*state.checkpoint.rglob("*")]:
        os.utime(path, (0, 0))
    fsync = CheckpointFsync(state.checkpoint)
    fsync.begin().wait()
    with monkeypatch.context() as listing:  # over before pytest removes the directory
        listing.setattr(os, "scandir", lambda path: pytest.fail(f"{path} is listed again"))
        fsync.begin().wait()


def test_a_file_that_spark_removes_meanwhile_is_no_failure(
    disk: Disk, state: StateOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, sync = state.file(0, 0, "changelog", "left"), durable_files.sync

    def sync_late(path: Path) -> None:
        gone.unlink(missing_ok=True)
        sync(path)

    monkeypatch.setattr(durable_files, "sync", sync_late)
    CheckpointFsync(state.checkpoint).begin().wait()


def test_after_a_failed_fsync_nothing_is_called_durable_any_more(disk: Disk, state: StateOnDisk) -> None:
    fsync = CheckpointFsync(state.checkpoint)
    disk.broken = state.file(2, 1, "changelog", "right")
    with pytest.raises(TransientError, match="could not be made durable: Input/output error"):
        fsync.begin().wait()
    disk.broken = None
    with pytest.raises(TransientError, match="could not be made durable"):
        fsync.begin().wait()


def test_a_checkpoint_without_state_or_sources_asks_for_nothing(disk: Disk, tmp_path: Path) -> None:
    CheckpointFsync(tmp_path).begin().wait()
    assert disk.synced == []
