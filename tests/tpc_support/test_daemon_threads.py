"""Threads that end with the process: they answer as an executor does, and nobody waits for one that hangs."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import pytest

from tests.support.processes import python
from tpc.support import daemon_threads
from tpc.support.daemon_threads import DaemonThreads


def test_calls_are_answered_side_by_side() -> None:
    both = threading.Barrier(2, timeout=10.0)
    threads = DaemonThreads(2, "test")
    asked = [threads.submit(both.wait) for _ in range(2)]
    assert sorted(future.result(10.0) for future in asked) == [0, 1]
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0).result(10.0)
    assert threads.submit(partial(int, "7", base=8)).result(10.0) == 7
    threads.shutdown()
    with pytest.raises(RuntimeError, match="let go"):
        threads.submit(int)


@pytest.mark.slow
def test_there_are_no_more_than_were_said_and_what_waits_can_be_cancelled() -> None:
    goes, names = threading.Event(), set[str]()
    threads = DaemonThreads(1, "test")

    def work() -> None:
        names.add(threading.current_thread().name)
        goes.wait(10.0)

    asked = [threads.submit(work) for _ in range(3)]
    while not asked[0].running():
        time.sleep(0.01)
    threads.shutdown(wait=False, cancel_futures=True)
    goes.set()
    wait(asked, 10.0)
    assert [future.cancelled() for future in asked] == [False, True, True]
    assert names == {"test_0"}


def test_a_call_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon_threads, "SHUTDOWN_S", 0.1)
    goes = threading.Event()
    threads = DaemonThreads(1, "test")
    threads.submit(goes.wait, 60.0)
    began_s = time.monotonic()
    threads.shutdown()
    assert time.monotonic() - began_s < 30.0
    goes.set()


HANGS = """
import time
from tpc.support.daemon_threads import DaemonThreads
threads = DaemonThreads(1, "test")
threads.submit(time.sleep, 600)
"""


def test_python_ends_while_one_hangs() -> None:
    assert issubclass(DaemonThreads, ThreadPoolExecutor.__bases__[0])
    with python(HANGS) as process:
        assert process.wait(60.0) == 0


NO_ROOM = """
import resource
from pathlib import Path
from tpc.support.daemon_threads import DaemonThreads

threads = DaemonThreads(1, "test")
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 1_500_000, resource.RLIM_INFINITY))  # less than a thread's stack
try:
    threads.submit(int)
except RuntimeError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(threads.submit(int).result(10.0))
threads.shutdown()
"""


def test_a_thread_that_the_system_does_not_start_is_told_and_may_be_tried_again() -> None:
    with python(NO_ROOM) as process:
        told, _ = process.communicate(timeout=60.0)
    assert told.splitlines() == ["can't start new thread", "0"]
