"""Python processes that a test starts, watches and kills, and what is left of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from tpc.support.deadlines import until
from tpc.support.process_trees import is_alive

DEADLINE_S = 30.0
REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def python(
    code: str, *arguments: object, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A Python process in a session of its own running `code`; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def line(process: subprocess.Popen[str]) -> str:
    """The next line it prints; fails if it ends instead."""
    assert process.stdout is not None
    text = process.stdout.readline()
    assert text, f"the process ended with code {process.wait(DEADLINE_S)} before it said anything"
    return text.strip()


def runs(pid: int) -> bool:
    """Whether a process still does anything; one that only waits to be reaped does not."""
    try:
        return is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def stands_still(process: subprocess.Popen[str]) -> None:
    """Wait until it has stopped itself by SIGSTOP: a signal to go on that comes before would be lost."""
    stopped = psutil.Process(process.pid)
    eventually(lambda: stopped.status() == psutil.STATUS_STOPPED, f"process {process.pid} stands still")


def suspend(process: psutil.Process) -> None:
    """SIGSTOP, and wait until every thread of it stands still: until then it may answer, on busy cores for a while."""
    process.suspend()
    threads = Path(f"/proc/{process.pid}/task")
    eventually(
        lambda: all(_state(thread) == "T" for thread in threads.iterdir()), f"process {process.pid} stands still"
    )


def _state(thread: Path) -> str:
    """As `proc_pid_stat(5)` has it; of one that has ended meanwhile that of the others."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "T"


def eventually(condition: Callable[[], bool], what: str, *, timeout_s: float = DEADLINE_S) -> None:
    """Wait until the condition holds; fails with `what` if it does not in time."""
    assert until(condition, timeout_s), f"{what}: not within {timeout_s:g} s"
