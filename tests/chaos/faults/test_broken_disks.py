"""Disks and calls that really fail, made to order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tpc.chaos.faults import failing_fsync
from tpc.chaos.faults.failing_fsync import FailingFsync
from tpc.chaos.faults.small_disk import SmallDisk


def test_a_full_disk_takes_nothing_until_it_is_emptied(disk: SmallDisk) -> None:
    disk.fill()
    with pytest.raises(OSError, match="No space left"):
        (disk.path / "file").write_text("x")
    disk.empty()
    (disk.path / "file").write_text("x")
    assert [path.name for path in disk.path.iterdir()] == ["file"]


def test_a_read_only_disk_takes_nothing_until_it_is_writable(disk: SmallDisk) -> None:
    disk.make_read_only()
    with pytest.raises(OSError, match="Read-only"):
        (disk.path / "file").write_text("x")
    disk.make_writable()
    (disk.path / "file").write_text("x")


def test_a_disk_is_gone_when_it_is_unmounted(tmp_path: Path, disk: SmallDisk) -> None:
    (disk.path / "file").write_text("x")
    disk.unmount()
    assert not (disk.path / "file").exists()


FSYNCS = """
import os, sys
descriptors = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]
print("ready", flush=True)
sys.stdin.readline()
for descriptor in descriptors * 2:
    try:
        os.fsync(descriptor)
        print("done")
    except OSError as error:
        print(error.strerror)
"""


def test_the_next_fsync_of_one_path_fails_and_no_other(tmp_path: Path) -> None:
    if reason := failing_fsync.why_not():
        pytest.skip(reason)
    paths = [tmp_path / "spared", tmp_path / "hit"]
    for path in paths:
        path.touch()
    process = subprocess.Popen(
        [sys.executable, "-c", FSYNCS, *map(str, paths)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    failing = FailingFsync(process.pid, paths[1])
    said, _ = process.communicate(os.linesep, timeout=60)
    assert failing.end()
    assert said.splitlines() == ["done", os.strerror(5), "done", "done"]


def test_an_fsync_that_never_came_is_not_taken_for_one_that_failed(tmp_path: Path) -> None:
    if reason := failing_fsync.why_not():
        pytest.skip(reason)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, text=True)
    failing = FailingFsync(process.pid, tmp_path)
    process.communicate("\n", timeout=60)
    assert not failing.end()
