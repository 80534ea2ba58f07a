"""The advisory lock on a checkpoint: one holder, named to the next one, gone with its process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.processes import line, python
from tpc.coordinator.checkpoint_lock import CheckpointLock
from tpc.errors import CheckpointInUseError

HOLDER = """
import sys
from pathlib import Path
from tpc.coordinator.checkpoint_lock import CheckpointLock
lock = CheckpointLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_second_process_is_refused_and_told_who_holds_the_checkpoint(tmp_path: Path) -> None:
    with python(HOLDER, tmp_path / "checkpoint" / "tpc") as holder:
        assert line(holder) == "held"
        with pytest.raises(CheckpointInUseError, match=f"in use by process {holder.pid}") as caught:
            CheckpointLock(tmp_path / "checkpoint" / "tpc").acquire()
    assert str(tmp_path / "checkpoint") in caught.value.what
    assert "takeover=True" in caught.value.remedy


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    with python(HOLDER, tmp_path) as holder:
        assert line(holder) == "held"
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        with CheckpointLock(tmp_path):
            assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_a_takeover_goes_past_the_lock_and_names_itself(tmp_path: Path) -> None:
    with CheckpointLock(tmp_path):
        (tmp_path / "lock").write_text("4194304999\n")
        second = CheckpointLock(tmp_path)
        second.acquire(takeover=True)
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
        second.release()


def test_a_released_lock_can_be_taken_again_and_released_twice(tmp_path: Path) -> None:
    lock = CheckpointLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.release()
    with CheckpointLock(tmp_path), pytest.raises(CheckpointInUseError):
        lock.acquire()
