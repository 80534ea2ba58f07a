"""Processes that end with their owner, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import eventually, line, python, runs
from tpc.chaos.running.owned_processes import OwnedProcess, run
from tpc.errors import LocalServerError

pytestmark = pytest.mark.slow  # processes of their own

OWNER = """
import os, signal, sys, time
from pathlib import Path
from tpc.chaos.running.owned_processes import OwnedProcess
directory = Path(sys.argv[1])
owned = OwnedProcess(["sleep", "600"], log_path=directory / "log", directory=directory)
print(owned.pid, flush=True)
"""


def owned(tmp_path: Path, *command: str) -> OwnedProcess:
    return OwnedProcess(command, log_path=tmp_path / "log", directory=tmp_path)


def test_a_killed_owner_takes_its_process_with_it(tmp_path: Path) -> None:
    with python(OWNER + "time.sleep(600)", tmp_path) as owner:
        pid = int(line(owner))
        assert runs(pid)
        owner.kill()
        eventually(lambda: not runs(pid), "the process of a killed owner ends", timeout_s=5)


def test_an_owner_that_just_ends_takes_its_process_with_it(tmp_path: Path) -> None:
    with python(OWNER, tmp_path) as owner:
        pid = int(line(owner))
        eventually(lambda: not runs(pid), "the process of an ended owner ends", timeout_s=5)


def test_a_forked_child_that_outlives_the_owner_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    code = OWNER + "child = os.fork()\nif child: print(child, flush=True)\ntime.sleep(600)"
    with python(code, tmp_path) as owner:
        pid, child = int(line(owner)), int(line(owner))
        owner.kill()
        eventually(lambda: not runs(pid), "the process of a killed owner ends", timeout_s=5)
        assert runs(child)  # else this test has shown nothing
        os.kill(child, signal.SIGKILL)


def test_ctrl_c_reaches_the_owner_and_not_its_process(tmp_path: Path) -> None:
    ready = "try:\n    print('ready', flush=True)\n    time.sleep(600)\n"
    code = OWNER + ready + "except KeyboardInterrupt: print(owned.alive, flush=True)\ntime.sleep(600)"
    with python(code, tmp_path) as owner:
        pid = int(line(owner))
        assert line(owner) == "ready"
        os.killpg(owner.pid, signal.SIGINT)  # what a terminal does on Ctrl-C
        assert line(owner) == "True"
        assert runs(pid)


def test_a_dismissed_watchdog_takes_its_process_with_it(tmp_path: Path) -> None:
    process = owned(tmp_path, "sleep", "600")
    process._watchdog.terminate()
    assert process.wait(5)
    assert not runs(process.pid)


def test_the_end_of_the_orders_means_that_the_owner_is_gone(tmp_path: Path) -> None:
    process = owned(tmp_path, "sleep", "600")
    process._orders.close()
    assert process._watchdog.wait(5) == 128 + signal.SIGKILL
    assert not runs(process.pid)


def test_a_process_that_ignores_its_end_signal_is_killed_after_the_grace(tmp_path: Path) -> None:
    code = OWNER.replace('["sleep", "600"]', '["sh", "-c", "trap : TERM; echo ready; while :; do sleep 1; done"]')
    code = code.replace("directory=directory)", "directory=directory, end_signal=signal.SIGTERM, grace_s=0.5)")
    with python(code + "time.sleep(600)", tmp_path) as owner:
        pid = int(line(owner))
        eventually(lambda: "ready" in (tmp_path / "log").read_text(), "the shell ignores SIGTERM")
        owner.kill()
        eventually(lambda: not runs(pid), "the stubborn process ends", timeout_s=5)


def test_a_detached_process_outlives_its_owner(tmp_path: Path) -> None:
    with python(OWNER + "owned.detach()", tmp_path) as owner:
        pid = int(line(owner))
        owner.wait(10)
        with pytest.raises(AssertionError):
            eventually(lambda: not runs(pid), "the detached process ends", timeout_s=1.5)
        os.kill(pid, signal.SIGKILL)
    assert (tmp_path / "log").read_text() == ""


def test_kill_takes_grandchildren_too(tmp_path: Path) -> None:
    process = owned(tmp_path, "sh", "-c", "setsid sleep 600 & echo $!; wait")
    eventually(lambda: "\n" in (tmp_path / "log").read_text(), "the shell names its child")
    grandchild = int((tmp_path / "log").read_text())
    process.kill()
    assert not process.alive
    assert not runs(grandchild)


def test_the_exit_code_and_the_output_are_kept(tmp_path: Path) -> None:
    process = owned(tmp_path, "sh", "-c", "echo out; echo err >&2; exit 3")
    assert process.wait(10)
    assert process.exit_code == 3
    assert (tmp_path / "log").read_text() == "out\nerr\n"
    process.send_signal(signal.SIGTERM)  # to one that has ended: nothing happens


def test_a_signal_that_ended_the_process_is_told(tmp_path: Path) -> None:
    process = owned(tmp_path, "sleep", "600")
    process.send_signal(signal.SIGTERM)
    assert process.wait(10)
    assert process.exit_code == 128 + signal.SIGTERM


def test_a_program_that_is_not_there_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(LocalServerError, match="no-such-program"):
        owned(tmp_path, "/no-such-program")


def test_run_tells_the_end_of_the_output_of_a_failure(tmp_path: Path) -> None:
    with pytest.raises(LocalServerError, match=r"exited with 4: \nit was the disk"):
        run(["sh", "-c", "echo it was the disk; exit 4"], log_path=tmp_path / "log", directory=tmp_path, timeout_s=10)


def test_run_ends_a_command_that_takes_too_long(tmp_path: Path) -> None:
    with pytest.raises(LocalServerError, match=r"did not end in 0\.3 s"):
        run(["sh", "-c", "echo $$; sleep 600"], log_path=tmp_path / "log", directory=tmp_path, timeout_s=0.3)
    assert not runs(int((tmp_path / "log").read_text()))


def test_no_watchdog_is_left(tmp_path: Path) -> None:
    process = owned(tmp_path, "sleep", "600")
    watchdog = process._watchdog
    process.kill()
    assert isinstance(watchdog, subprocess.Popen)
    assert watchdog.poll() == 128 + signal.SIGKILL
