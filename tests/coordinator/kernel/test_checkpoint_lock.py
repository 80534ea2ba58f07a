"""The advisory lock on a checkpoint: one holder, named to the next one, gone with its process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory

import pytest

from tests.support.other_users import NOBODY, as_user, can_be_another
from tests.support.processes import line, python
from tpc.chaos.faults.small_disk import SmallDisk
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock, holder_of
from tpc.coordinator.kernel.stop_request import StopRequest, locked_once_stopped
from tpc.coordinator.operations.supervision.exit_codes import EXIT_FENCED
from tpc.errors import CheckpointInUseError, ConfigurationError, FencedError, TransientError
from tpc.support import since_boot

HOLDER = """
import sys
from pathlib import Path
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock, holder_of
lock = CheckpointLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.readline()
"""

FORKS = """
import os, sys, time
from pathlib import Path
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
lock = CheckpointLock(Path(sys.argv[1]))
lock.acquire()
if not os.fork():
    print(os.getpid(), flush=True)  # the child says it, since it lets go of the lock before its fork returns
time.sleep(600)
"""

BEGINS = """
import sys
from pathlib import Path
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock, holder_of
from tpc.coordinator.operations.supervision.exit_codes import exit_code_for
from tpc.errors import TpcError
lock = CheckpointLock(Path(sys.argv[1]))
if sys.argv[2] == "locks":
    lock.acquire()
print("begun", flush=True)
sys.stdin.readline()
try:
    lock.require_not_taken_over() if sys.argv[2] == "locks" else lock.acquire()
except TpcError as error:
    print(type(error).__name__, flush=True)
    sys.exit(exit_code_for(error))
print("leads", flush=True)
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
            assert holder_of(tmp_path) == (os.getpid(), since_boot.process_began())


def test_a_takeover_goes_past_the_lock_and_names_itself(tmp_path: Path) -> None:
    with CheckpointLock(tmp_path):
        (tmp_path / "lock").write_text("4194304999\n")
        second = CheckpointLock(tmp_path)
        second.acquire(takeover=True)
        assert holder_of(tmp_path) == (os.getpid(), since_boot.process_began())
        second.release()


def test_a_released_lock_can_be_taken_again_and_released_twice(tmp_path: Path) -> None:
    lock = CheckpointLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.release()
    with CheckpointLock(tmp_path), pytest.raises(CheckpointInUseError):
        lock.acquire()


def go_on(process: Popen[str]) -> str:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return line(process)


@pytest.mark.parametrize("before", ["waits", "locks"])
@pytest.mark.parametrize("still", [True, False])
def test_a_process_that_began_before_a_takeover_ends_fenced(tmp_path: Path, before: str, still: bool) -> None:
    """Before it came to the lock or behind it; while the one that took over still runs, and when that has ended."""
    with python(BEGINS, tmp_path, before) as first:
        assert line(first) == "begun"
        lock = CheckpointLock(tmp_path)
        lock.acquire(takeover=True)
        if not still:
            lock.release()
        assert go_on(first) == "FencedError"
        assert first.wait(10) == EXIT_FENCED
        lock.release()


def test_a_process_that_begins_after_a_takeover_is_told_who_holds_the_lock_and_may_follow(tmp_path: Path) -> None:
    lock = CheckpointLock(tmp_path)
    lock.acquire(takeover=True)
    with python(BEGINS, tmp_path, "waits") as second, python(BEGINS, tmp_path, "waits") as third:
        assert (line(second), line(third)) == ("begun", "begun")
        assert go_on(second) == "CheckpointInUseError"
        assert second.wait(10) == 1
        lock.release()
        assert go_on(third) == "leads"


def test_a_takeover_fences_neither_its_own_process_nor_anybody_after_a_boot(tmp_path: Path) -> None:
    lock = CheckpointLock(tmp_path)
    lock.acquire(takeover=True)
    lock.release()
    with CheckpointLock(tmp_path):
        pass
    word = json.loads((tmp_path / "takeover").read_text())
    (tmp_path / "takeover").write_text(json.dumps({**word, "process": 0}))
    with pytest.raises(FencedError, match="taken over by process 0"):
        CheckpointLock(tmp_path).acquire()
    (tmp_path / "takeover").write_text(json.dumps({**word, "process": 0, "boot": "an earlier one"}))
    with CheckpointLock(tmp_path):
        pass


def test_a_lock_that_was_gone_past_is_taken_once_its_holder_is_gone(tmp_path: Path) -> None:
    """Else a supervisor that starts the holder anew would have it lead again."""
    with python(HOLDER, tmp_path) as holder:
        assert line(holder) == "held"
        lock = CheckpointLock(tmp_path)
        lock.acquire(takeover=True)
        assert lock.before is not None
        assert lock.before[0] == holder.pid
        holder.kill()
        holder.wait(10)
        lock.retake()
        with pytest.raises(CheckpointInUseError, match=f"in use by process {os.getpid()}"):
            CheckpointLock(tmp_path).acquire()
        lock.release()


def test_who_holds_the_lock_is_told_of_a_takeover_and_not_of_its_own(tmp_path: Path) -> None:
    lock, told = CheckpointLock(tmp_path), list[str]()
    lock.acquire(takeover=True)
    lock.hold(lambda: told.append("of its own"))
    assert told == []
    time.sleep(2 * since_boot.TICK_S)  # a process may take over twice within one tick, and is the same one then
    other = CheckpointLock(tmp_path)
    other.acquire(takeover=True)
    for _ in range(2):
        lock.hold(lambda: told.append("taken over"))
    assert told == ["taken over", "taken over"]
    with pytest.raises(FencedError, match=f"taken over by process {os.getpid()}"):
        lock.require_not_taken_over()
    other.require_not_taken_over()
    lock.release()
    lock.require_not_taken_over()  # it leads no more, and nobody has to fence it
    other.release()


def test_holding_a_lock_that_was_gone_past_takes_it_once_it_is_free(tmp_path: Path) -> None:
    with python(HOLDER, tmp_path) as holder:
        assert line(holder) == "held"
        lock = CheckpointLock(tmp_path)
        lock.acquire(takeover=True)
        lock.hold(lambda: pytest.fail("nobody has taken it over"))  # it is not free yet
        holder.kill()
        holder.wait(10)
        lock.hold(lambda: pytest.fail("nobody has taken it over"))
        with pytest.raises(CheckpointInUseError):
            CheckpointLock(tmp_path).acquire()
        lock.release()
        lock.retake()  # it holds nothing to be taken
        with CheckpointLock(tmp_path):
            pass


def test_a_word_that_a_power_cut_has_torn_fences_nobody(tmp_path: Path) -> None:
    (tmp_path / "takeover").write_text("")
    with CheckpointLock(tmp_path) as lock:
        lock.require_not_taken_over()
        lock.hold(lambda: pytest.fail("nobody has taken it over"))


def test_a_lock_that_is_refused_leaves_no_file_open(tmp_path: Path) -> None:
    with CheckpointLock(tmp_path):
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            with pytest.raises(CheckpointInUseError):
                CheckpointLock(tmp_path).acquire()
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_who_was_gone_past_or_was_killed_had_it_before_and_who_let_go_of_it_had_not(tmp_path: Path) -> None:
    """One that lives on may lead another checkpoint, and is not to be ended for this one."""
    with python(HOLDER, tmp_path) as holder:
        assert line(holder) == "held"
        lock = CheckpointLock(tmp_path)
        lock.acquire(takeover=True)
        assert lock.before is not None and lock.before[0] == holder.pid
    lock.release()
    for _ in range(2):
        lock.acquire(takeover=True)
        assert lock.before is None
        lock.release()
    lock.acquire()
    after = CheckpointLock(tmp_path)
    after.acquire(takeover=True)
    assert after.before == (os.getpid(), since_boot.process_began())
    after.release()
    lock.release()


def test_what_a_process_has_forked_does_not_hold_its_lock(tmp_path: Path) -> None:
    with python(FORKS, tmp_path) as holder:
        child = int(line(holder))
        try:
            with pytest.raises(CheckpointInUseError):
                CheckpointLock(tmp_path).acquire()
            holder.kill()
            holder.wait(10)
            with CheckpointLock(tmp_path):
                os.kill(child, 0)  # it lives
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("name", ["lock", "takeover", "released"])
@pytest.mark.parametrize("takeover", [False, True])
def test_a_directory_in_the_place_of_a_file_of_ours_is_named(name: str, takeover: bool, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    lock = CheckpointLock(tmp_path)
    with pytest.raises(ConfigurationError, match=f"/{name}.* cannot be used for the checkpoint") as raised:
        lock.acquire(takeover=takeover)
    assert "nothing rests on it" in raised.value.remedy
    assert not list(tmp_path.glob(".*"))
    (tmp_path / name).rmdir()
    lock.acquire(takeover=takeover)
    lock.release()


def _file(root: Path) -> Path:
    (root / "file").write_text("")
    return root / "file"


def _link_to_itself(root: Path) -> Path:
    (root / "link").symlink_to(root / "link")
    return root / "link"


PLACES = [_file, lambda root: _file(root) / "below", _link_to_itself, lambda root: root / ("x" * 300)]


@pytest.mark.parametrize("place", PLACES, ids=["a file", "below a file", "a link to itself", "a long name"])
def test_a_place_that_can_be_no_directory_is_named(place: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used for the checkpoint") as raised:
        CheckpointLock(place(tmp_path) / "tpc").acquire()
    assert "name a directory" in raised.value.remedy


def test_a_link_to_a_directory_that_is_gone_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").symlink_to(tmp_path / "unmounted")
    with pytest.raises(ConfigurationError, match=r"it is a link to .*/unmounted, which leads to nothing"):
        CheckpointLock(tmp_path / "checkpoint" / "tpc").acquire()


def test_nobody_is_asked_to_stop_where_the_disk_is_full(disk: SmallDisk) -> None:
    directory = disk.path / "checkpoint" / "tpc"
    with CheckpointLock(directory):
        disk.fill()
        with (
            pytest.raises(TransientError, match="cannot be asked to stop, and runs on: No space left"),
            locked_once_stopped(directory, 1.0),
        ):
            pytest.fail("the lock was taken")
        assert not StopRequest(directory).is_made()


@pytest.mark.parametrize("takeover", [False, True])
@pytest.mark.parametrize("is_made", [False, True], ids=["new", "used before"])
def test_a_file_system_that_takes_nothing_is_told_with_what_to_do(
    is_made: bool, takeover: bool, disk: SmallDisk
) -> None:
    directory = disk.path / "checkpoint" / "tpc"
    if is_made:
        with CheckpointLock(directory):
            pass
    disk.make_read_only()
    with pytest.raises(TransientError, match=r"of the checkpoint .* cannot be taken: Read-only") as raised:
        CheckpointLock(directory).acquire(takeover=takeover)
    assert "mount the file system for writing" in str(raised.value.remedy)
    disk.make_writable()
    with CheckpointLock(directory):
        pass


def test_so_it_is_told_to_who_asks_a_pipeline_to_stop(disk: SmallDisk) -> None:
    directory = disk.path / "checkpoint" / "tpc"
    with locked_once_stopped(directory, 1.0):
        pass
    disk.make_read_only()
    with pytest.raises(TransientError, match="cannot be taken: Read-only"), locked_once_stopped(directory, 1.0):
        pytest.fail("the lock was taken")


def test_a_full_file_system_is_told_with_what_to_do(disk: SmallDisk) -> None:
    disk.fill()
    with pytest.raises(TransientError, match="cannot be taken: No space left on device") as raised:
        CheckpointLock(disk.path / "checkpoint" / "tpc").acquire()
    assert "free space" in str(raised.value.remedy)


@pytest.mark.skipif(not can_be_another(), reason="only root may become another user")
def test_a_checkpoint_of_another_user_is_told_with_owner_and_mode() -> None:
    code = """
import sys
from pathlib import Path
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.errors import TransientError
try:
    CheckpointLock(Path(sys.argv[1])).acquire()
except TransientError as error:
    print(error)
"""
    with TemporaryDirectory() as folder:  # unlike `tmp_path`, others may enter it
        Path(folder).chmod(0o755)
        done = subprocess.run(
            [*as_user(NOBODY, NOBODY), sys.executable, "-c", code, f"{folder}/tpc"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert "cannot be taken: Permission denied" in done.stdout
    assert "mode 0755" in done.stdout
    assert "chown --reference" in done.stdout
