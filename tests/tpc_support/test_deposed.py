"""A takeover ends a process that stands still with a file locked that the successor needs, and nobody else."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes import eventually
from tpc.support.deposed import LOCKS, end_deposed

pytestmark = pytest.mark.skipif(not LOCKS.exists(), reason="only Linux tells who holds a lock")

HOLDS = """
import fcntl, sqlite3, sys, time
lock, database, begin, mode = sys.argv[1:]
held = open(lock, "w")
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


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_one_that_stands_still_within_a_transaction_is_ended(
    hold: Hold, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    process = hold(mode=mode)
    stop(process)
    assert not can_write(tmp_path / "state.db")
    end_deposed(tmp_path / "lock", [tmp_path / "other.db", tmp_path / "state.db"])
    assert can_write(tmp_path / "state.db")  # at once, though nobody has reaped the process
    assert process.wait(10) == -signal.SIGKILL
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"process {process.pid} was taken over, stands still, and has {tmp_path / 'state.db'}")


def test_one_that_runs_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold()
    end_deposed(tmp_path / "lock", [tmp_path / "state.db"])
    assert process.poll() is None


def test_one_that_does_not_hold_the_checkpoint_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold(lock="/dev/null")
    stop(process)
    (tmp_path / "lock").touch()
    end_deposed(tmp_path / "lock", [tmp_path / "state.db"])
    assert process.poll() is None


def test_one_that_has_another_file_locked_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold(database="users.db")
    stop(process)
    end_deposed(tmp_path / "lock", [tmp_path / "state.db"])
    assert process.poll() is None


def test_one_that_only_reads_is_left_alone(hold: Hold, tmp_path: Path) -> None:
    process = hold(begin="BEGIN")
    stop(process)
    end_deposed(tmp_path / "lock", [tmp_path / "state.db"])
    assert process.poll() is None
    assert can_write(tmp_path / "state.db")


def test_one_that_cannot_be_ended_is_named(
    hold: Hold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process = hold()
    stop(process)
    monkeypatch.setattr("psutil.Process.kill", _is_another_users)
    end_deposed(tmp_path / "lock", [tmp_path / "state.db"])
    assert process.poll() is None
    assert f"process {process.pid}, which has {tmp_path / 'state.db'}" in caplog.text
    assert "cannot be ended" in caplog.text


def _is_another_users(self: object) -> None:
    import psutil

    raise psutil.AccessDenied(getattr(self, "pid", None))
