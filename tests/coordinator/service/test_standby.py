"""A second process of a service stands by: it takes over when the first is gone or silent, and fences it."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.coordinator.service.standby_program import KEYS
from tests.core.builders import generation_body
from tests.support.memory import MemoryLog
from tpc.chaos.faults.small_disk import SmallDisk
from tpc.coordinator.kernel.checkpoint import LocalCheckpoint
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.heartbeat import FILE_NAME, HeartbeatWriter, read_heartbeat, this_process
from tpc.coordinator.kernel.log.journal import Journal
from tpc.coordinator.kernel.log.local import LocalLog
from tpc.coordinator.operations import actions
from tpc.coordinator.service.standby import POLL_S, Standby
from tpc.errors import ConfigurationError, TransientError
from tpc.records import RecordKind
from tpc.support import since_boot

pytestmark = pytest.mark.slow  # processes of their own

ROOT = Path(__file__).parents[3]
DEADLINE_S = 90.0


def until(what: str, holds: Callable[[], object]) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(0.05)


class Pair:
    """Processes of one service, and the lines that it reads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.notes = directory / "service" / "tpc"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.numbers = 0
        self.add(40)

    def add(self, count: int) -> None:
        """Lines, whole."""
        with (self.directory / "lines").open("a") as lines:
            lines.writelines(f"{number}\n" for number in range(self.numbers, self.numbers + count))
        self.numbers += count

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.coordinator.service.standby_program", str(self.directory)]
        told = (self.directory / f"told-{len(self.processes)}").open("wb")
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.processes.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=told))
        told.close()
        return self.processes[-1]

    def told(self, number: int) -> str:
        return (self.directory / f"told-{number}").read_text()

    def stands_by(self, number: int, leader: subprocess.Popen[bytes]) -> None:
        until("it stands by", lambda: f"process {leader.pid} leads: this one stands by" in self.told(number))

    def wrote_all(self) -> None:
        until("all lines are written", lambda: len(self.written()) >= self.numbers)
        assert self.written() == self.expected()

    def written(self) -> list[tuple[int, int]]:
        rows = [row for path in (self.directory / "out").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
        return sorted((row["n"], row["sum"]) for row in rows)

    def expected(self) -> list[tuple[int, int]]:
        totals, rows = [0] * KEYS, []
        for number in range(self.numbers):
            totals[number % KEYS] += number
            rows.append((number, totals[number % KEYS]))
        return rows

    def leader(self) -> int | None:
        state = actions.status(LocalLog(self.notes / "log"), LocalCheckpoint(self.directory / "service"))
        return None if state["leader"] is None else int(state["leader"]["process"])

    def generation(self) -> int:
        return Journal(LocalLog(self.notes / "log")).open().generation

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    try:
        yield made
    finally:
        made.end()


def test_a_killed_process_is_followed_by_the_one_that_stood_by(pair: Pair) -> None:
    first = pair.start()
    pair.wrote_all()
    second = pair.start()
    pair.stands_by(1, first)
    assert (pair.leader(), pair.generation()) == (first.pid, 1)
    first.kill()
    pair.add(60)
    pair.wrote_all()
    assert (pair.leader(), pair.generation()) == (second.pid, 2)
    second.terminate()
    assert second.wait(DEADLINE_S) == 0
    assert pair.leader() is None


def test_a_process_that_stands_still_is_taken_over_and_ends_fenced_when_it_wakes(pair: Pair) -> None:
    first = pair.start()
    pair.wrote_all()
    second = pair.start()
    pair.stands_by(1, first)
    first.send_signal(signal.SIGSTOP)
    pair.add(60)
    pair.wrote_all()
    third = pair.start()
    pair.stands_by(2, second)
    second.terminate()
    assert second.wait(DEADLINE_S) == 0
    pair.add(30)
    pair.wrote_all()
    assert pair.leader() == third.pid  # though the first holds the lock still
    pair.start()
    pair.stands_by(3, third)
    first.send_signal(signal.SIGCONT)
    assert first.wait(DEADLINE_S) == 86
    assert "Traceback" not in pair.told(0)
    pair.add(30)
    pair.wrote_all()
    assert pair.leader() == third.pid  # the end of the first, who held the lock, has moved nobody
    assert [process.poll() for process in pair.processes] == [86, 0, None, None]


def test_a_process_that_stands_by_ends_at_once_when_it_is_asked_to(pair: Pair) -> None:
    first = pair.start()
    pair.wrote_all()
    second = pair.start()
    pair.stands_by(1, first)
    second.terminate()
    assert second.wait(DEADLINE_S) == 0
    assert pair.generation() == 1


# Who leads, and who is next ------------------------------------------------------------------------------------


def waiting(line: Standby) -> tuple[threading.Thread, list[Any]]:
    """`line.wait()` in a thread, and what came of it."""
    came: list[Any] = []

    def work() -> None:
        try:
            came.append(line.wait())
        except Exception as error:  # noqa: BLE001  the test asks for it
            came.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, came


def test_an_operator_at_work_is_waited_for_however_long_it_takes(tmp_path: Path) -> None:
    """The leader is gone without a word, and a command holds the lock."""
    notes = tmp_path / "tpc"
    notes.mkdir()
    gone = {"turn": 1, "process": 1, "host": "h", "boot": "b"}
    (notes / FILE_NAME).write_text(json.dumps(gone))
    with CheckpointLock(notes):
        thread, came = waiting(Standby(notes, LocalLog(notes / "log"), 2.0))
        thread.join(5.0)
        assert came == []
    thread.join(DEADLINE_S)
    assert came == [True]


def test_one_process_is_next_and_the_others_wait_for_it(tmp_path: Path) -> None:
    notes = tmp_path / "tpc"
    first, second = (Standby(notes, LocalLog(notes / "log"), 2.0) for _ in range(2))
    assert first.wait()
    thread, came = waiting(second)
    thread.join(1.0)
    assert came == []
    leading = HeartbeatWriter(notes)
    leading.begin()
    first.leave()
    thread.join(1.0)
    assert came == []
    leading.end()
    thread.join(DEADLINE_S)
    assert came == [True]
    second.leave()


def test_a_sign_is_no_longer_given_when_another_process_has_begun_to(tmp_path: Path) -> None:
    first, second = HeartbeatWriter(tmp_path), HeartbeatWriter(tmp_path)
    first.begin()
    second.begin()
    first.end()
    sign = read_heartbeat(tmp_path)
    assert sign is not None
    assert (sign.turn, sign.ended) == (2, False)
    second.end()


def test_a_standby_that_cannot_see_who_leads_is_refused(tmp_path: Path) -> None:
    """Its log is elsewhere, and the directory is another machine's."""
    journal = Journal(LocalLog(tmp_path / "log"))
    journal.open()
    journal.append(RecordKind.GENERATION, generation_body(1, host="elsewhere", process=7))
    with pytest.raises(ConfigurationError, match="led by process 7 on elsewhere, which gives no heartbeat"):
        Standby(tmp_path / "tpc", LocalLog(tmp_path / "log"), 2.0).wait()


def test_a_standby_in_a_container_of_another_host_name_is_not_taken_for_another_machine(tmp_path: Path) -> None:
    """The newest term is of a process that gave no heartbeat, an operator's command or a start that failed, say."""
    journal = Journal(LocalLog(tmp_path / "log"))
    journal.open()
    body = generation_body(1, host="a container that is gone", process=7, boot=since_boot.which())
    journal.append(RecordKind.GENERATION, body)
    (tmp_path / "tpc").mkdir()
    with CheckpointLock(tmp_path / "tpc"):
        pass  # that process was here
    assert Standby(tmp_path / "tpc", LocalLog(tmp_path / "log"), 2.0).wait()


def test_a_standby_with_an_empty_directory_takes_over_from_no_other_container(
    tmp_path: Path,
) -> None:
    """Two containers of one machine, a directory each, one log: who leads is not seen from here."""
    journal = Journal(LocalLog(tmp_path / "log"))
    journal.open()
    body = generation_body(1, host="another container", process=7, boot=since_boot.which())
    journal.append(RecordKind.GENERATION, body)
    with pytest.raises(ConfigurationError, match="process 7 on another container, which gives no heartbeat"):
        Standby(tmp_path / "tpc", LocalLog(tmp_path / "log"), 2.0).wait()


def test_who_has_just_begun_is_not_taken_for_the_one_before_it_that_had_its_number(tmp_path: Path) -> None:
    """As in two containers, whose processes are all number 1. The new one holds the lock and has given no heartbeat."""
    notes = tmp_path / "tpc"
    notes.mkdir()
    ended = {"turn": 1, **this_process(), "began": since_boot.process_began() - 60, "ended": True}
    (notes / FILE_NAME).write_text(json.dumps(ended))
    with CheckpointLock(notes):
        thread, came = waiting(Standby(notes, LocalLog(notes / "log"), 2.0))
        thread.join(2.0)
        assert came == []
    thread.join(DEADLINE_S)
    assert came == [True]


LEADS = """
import signal, sys, time
from pathlib import Path
from tpc.coordinator.kernel.checkpoint_lock import CheckpointLock
from tpc.coordinator.kernel.heartbeat import HeartbeatWriter
notes, what = Path(sys.argv[1]), sys.argv[2]
CheckpointLock(notes).acquire(takeover=what != "leads")
if what != "dies":
    HeartbeatWriter(notes).begin()
if what == "leads":
    (notes / "begun").touch()
    time.sleep(600)
"""


@pytest.mark.parametrize("between", [False, True], ids=["it went past the leader", "it went past a second leader"])
def test_a_takeover_that_died_before_its_first_sign_keeps_nobody_waiting_for_who_stands_still(
    tmp_path: Path, between: bool
) -> None:
    """The lock says the dead process, and is held by the one that the first takeover went past."""
    notes = tmp_path / "tpc"
    command = [sys.executable, "-c", LEADS, str(notes)]
    first = subprocess.Popen([*command, "leads"], cwd=ROOT)
    try:
        until("it leads", (notes / "begun").exists)
        first.send_signal(signal.SIGSTOP)
        if between:
            subprocess.run([*command, "leads and dies"], cwd=ROOT, check=True)
        subprocess.run([*command, "dies"], cwd=ROOT, check=True)
        with Standby(notes, LocalLog(notes / "log"), 2.0) as line:
            thread, came = waiting(line)
            thread.join(30.0)
            line._stopped.set()
            thread.join()
            assert came == [True]
    finally:
        first.kill()
        first.wait()


def test_a_standby_on_another_machine_than_the_leader_is_refused(tmp_path: Path) -> None:
    notes = tmp_path / "tpc"
    notes.mkdir()
    sign = {"turn": 1, "process": 1, "host": "other", "boot": "b"}
    (notes / FILE_NAME).write_text(json.dumps(sign))
    thread, came = waiting(Standby(notes, LocalLog(notes / "log"), 60.0))
    until("it is refused", lambda: _beaten(notes / FILE_NAME, sign) and came)
    thread.join()
    assert "process 1 on other leads, and this is another machine" in str(came[0])


def _beaten(path: Path, sign: dict[str, Any]) -> bool:
    """Another machine's heartbeat, once more."""
    sign["count"] = sign.get("count", 0) + 1
    path.with_name("new").write_text(json.dumps(sign))
    path.with_name("new").replace(path)
    return True


def test_a_silence_shorter_than_signs_come_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give at least 2 s"):
        Standby(tmp_path, LocalLog(tmp_path / "log"), 1.0)


class LockedLog(MemoryLog):
    """A file that a process which stands still within a commit has locked, also for who reads."""

    def slots(self) -> list[int]:
        raise TransientError("database is locked")

    def locked_files(self) -> Sequence[Path]:
        return [Path("/data/log.db")]


class LostLog(LockedLog):
    """One of another machine that does not answer."""

    def locked_files(self) -> Sequence[Path]:
        return ()


def test_a_log_that_is_locked_on_this_machine_keeps_nobody_from_taking_over(tmp_path: Path) -> None:
    notes = tmp_path / "tpc"
    with CheckpointLock(notes):
        pass  # somebody has begun here
    with Standby(notes, LockedLog(), 2.0) as line:
        assert line.wait()
    with Standby(notes, LostLog(), 2.0) as line, pytest.raises(TransientError):
        line.wait()


def test_where_nobody_has_begun_a_locked_log_is_waited_for_since_who_leads_may_do_so_elsewhere(tmp_path: Path) -> None:
    with Standby(tmp_path / "tpc", LockedLog(), 2.0) as line, pytest.raises(TransientError):
        line.wait()


def test_who_waits_behind_another_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with Standby(tmp_path, MemoryLog(), 2.0) as first, Standby(tmp_path, MemoryLog(), 2.0) as second:
        assert first.wait()
        stops = threading.Timer(4 * POLL_S, second._stopped.set)
        stops.start()
        assert not second.wait()
        stops.join()
    [said] = [record.getMessage() for record in caplog.records if "next in line" in record.getMessage()]
    assert said == "another process stands by already, and is next in line: this one waits for it to lead"


def test_a_directory_that_takes_no_files_is_told_before_it_is_waited_in(disk: SmallDisk) -> None:
    disk.make_read_only()
    with pytest.raises(TransientError, match="cannot be taken: Read-only") as raised:
        Standby(disk.path / "service" / "tpc", MemoryLog(), None).wait()
    assert "mount the file system for writing" in str(raised.value.remedy)


def test_so_is_one_that_has_come_to_take_no_files_since(disk: SmallDisk) -> None:
    directory = disk.path / "service" / "tpc"
    directory.mkdir(parents=True)
    disk.make_read_only()
    with pytest.raises(TransientError, match=r"the lock .*/next of the checkpoint .* cannot be taken: Read-only"):
        Standby(directory, MemoryLog(), None).wait()
