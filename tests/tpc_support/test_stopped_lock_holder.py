"""A takeover ends a process that stands still with a file locked that the successor needs, and nobody else."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.processes import eventually
from tpc.support import stopped_lock_holder
from tpc.support.stopped_lock_holder import LOCKS, kill_stopped_lock_holder

pytestmark = [
    pytest.mark.slow,  # processes of their own
    pytest.mark.skipif(not LOCKS.exists(), reason="only Linux tells who holds a lock"),
]

HOLDS = """
import fcntl, sqlite3, sys, time
lock, database, begin, mode = sys.argv[1:]
import os
held = open(lock, "w")
if mode == "FORKS":
    mode = "WAL"
    if not os.fork():
        time.sleep(600)
if lock != "/dev/null":
    fcntl.flock(held, fcntl.LOCK_EX)
connection = sqlite3.connect(database, isolation_level=None)
connection.execute(f"PRAGMA journal_mode = {mode}")
connection.execute("CREATE TABLE IF NOT EXISTS t (n INT)")
connection.execute(begin)
connection.execute("SELECT * FROM t").fetchall()
print("holds", flush=True)
time.sleep(600)
"""
Hold = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """Starts processes that hold a checkpoint's lock, and a transaction in a database, and stand still."""
    processes: list[subprocess.Popen[str]] = []

    def start(
        *, lock: str | None = None, database: str = "state.db", begin: str = "BEGIN IMMEDIATE", mode: str = "WAL"
    ) -> subprocess.Popen[str]:
        arguments = [lock or str(tmp_path / "lock"), str(tmp_path / database), begin, mode]
        process = subprocess.Popen([sys.executable, "-c", HOLDS, *arguments], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{process.pid}/stat")
    eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it stands still")


def can_write(database: Path) -> bool:
    with closing(sqlite3.connect(database, timeout=0.1)) as connection:
        try:
            connection.execute("INSERT INTO t VALUES (1)")
            connection.commit()
        except sqlite3.OperationalError:
            return False
        return True


@pytest.mark.parametrize(
    ("mode", "begin"), [("WAL", "BEGIN IMMEDIATE"), ("DELETE", "BEGIN IMMEDIATE"), ("DELETE", "BEGIN")]
)
def test_one_that_stands_still_within_a_transaction_is_ended(
    hold: Hold, tmp_path: Path, mode: str, begin: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a write-ahead log also one that reads keeps writers out."""
    process = hold(mode=mode, begin=begin)
    stop(process)
    assert not can_write(tmp_path / "state.db")
    kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "other.db", tmp_path / "state.db"])
    assert can_write(tmp_path / "state.db")  # at once, though nobody has reaped the process
    assert process.wait(10) == -signal.SIGKILL
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"process {process.pid} was taken over, is stopped, and has {tmp_path / 'state.db'}")


def test_one_whose_child_has_the_lock_s_file_too_is_ended_and_that_is_all(
    hold: Hold, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process = hold(mode="FORKS")
    [child] = psutil.Process(process.pid).children()
    try:
        stop(process)
        kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "state.db"])
        assert can_write(tmp_path / "state.db")
        assert len(caplog.records) == 1  # that it is killed; not that something of it is still locked
    finally:
        child.kill()


def test_one_with_an_idle_connection_to_a_file_that_is_named_by_a_link_is_left_alone(
    hold: Hold, tmp_path: Path
) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "state.db")
    process = hold(begin="SELECT 1")
    stop(process)
    kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "link.db"])
    assert process.poll() is None


def test_one_that_runs_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold()
    kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "state.db"])
    assert process.poll() is None


def test_one_that_goes_on_meanwhile_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold()
    stop(process)
    goes_on = threading.Timer(stopped_lock_holder.LOOK_AGAIN_S / 4, process.send_signal, [signal.SIGCONT])
    goes_on.start()
    kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "state.db"])
    goes_on.join()
    assert process.poll() is None


def test_one_that_had_gone_past_the_lock_itself_is_ended_and_not_the_one_that_holds_it(
    hold: Hold, tmp_path: Path
) -> None:
    first, second = hold(database="of-nobody.db"), hold(lock="/dev/null")
    for process in (first, second):
        stop(process)
    began = psutil.Process(second.pid).create_time() - psutil.boot_time()
    kill_stopped_lock_holder(tmp_path / "lock", (second.pid, began), [tmp_path / "state.db"])
    assert second.wait(10) == -signal.SIGKILL
    assert first.poll() is None


def test_another_process_of_the_same_number_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold(lock="/dev/null")
    stop(process)
    began = psutil.Process(process.pid).create_time() - psutil.boot_time()
    kill_stopped_lock_holder(tmp_path / "lock", (process.pid, began - 60), [tmp_path / "state.db"])
    assert process.poll() is None


def test_one_that_has_a_file_of_the_same_number_locked_elsewhere_is_left_alone(
    hold: Hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two file systems may number their files alike."""
    process = hold()
    stop(process)
    honest = stopped_lock_holder._file

    def on_another_device(path: Path) -> Any:
        file = honest(path)
        return file and file._replace(device=-1) if path.name.startswith("state.db") else file

    monkeypatch.setattr(stopped_lock_holder, "_file", on_another_device)
    kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "state.db"])
    assert process.poll() is None


def test_one_that_does_not_hold_the_checkpoint_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold(lock="/dev/null")
    stop(process)
    (tmp_path / "lock").touch()
    kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "state.db"])
    assert process.poll() is None


def test_one_that_has_another_file_locked_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold(database="users.db")
    stop(process)
    kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "state.db"])
    assert process.poll() is None


def test_one_that_only_reads_beside_a_write_ahead_log_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold(begin="BEGIN")
    stop(process)
    kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "state.db"])
    assert process.poll() is None
    assert can_write(tmp_path / "state.db")


def test_one_that_cannot_be_ended_is_named(
    hold: Hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = hold()
    stop(process)
    monkeypatch.setattr("psutil.Process.kill", _is_another_users)
    kill_stopped_lock_holder(tmp_path / "lock", None, [tmp_path / "state.db"])
    assert process.poll() is None
    assert f"process {process.pid}, which has {tmp_path / 'state.db'}" in caplog.text
    assert "cannot be ended" in caplog.text


def _is_another_users(self: object) -> None:
    raise psutil.AccessDenied(getattr(self, "pid", None))
