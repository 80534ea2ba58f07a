"""A process and all that it has started: found, ended at once, waited for.

PySpark makes several process groups (the driver's, the JVM's, the workers' daemon's), so a group alone is not a
pipeline: the tree is walked, and the groups of all its members are ended too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

from tpc.support.deadlines import until


def tree_of(pid: int) -> list[psutil.Process]:
    """Process `pid` and everything below it; nothing when it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Whether a process is there and is no zombie: one stays a zombie until its parent collects it."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_tree(pid: int) -> list[psutil.Process]:
    """SIGKILL to process `pid`, everything it started, and their process groups; the processes that there were.

    Spares the caller's own group; a caller that is one of the processes ends itself last.
    """
    processes = tree_of(pid)
    kill_groups(processes)
    for process in sorted(processes, key=lambda process: process.pid == os.getpid()):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return processes


def kill_groups(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to the process groups of `processes`, except the caller's own."""
    groups = set()
    for process in processes:
        with suppress(ProcessLookupError):
            groups.add(os.getpgid(process.pid))
    for group in groups - {os.getpgrp()}:
        kill_group(group)


def kill_group(group: int) -> None:
    """SIGKILL to a process group; nothing when it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def gone_within(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Those of `processes` that still live when the time is up; empty as soon as none does."""
    waited_for = list(processes)
    until(lambda: not any(map(is_alive, waited_for)), timeout_s)
    return [process for process in waited_for if is_alive(process)]


# A process ends when its parent is killed.
#
# By itself it would go on computing, and then wait for ever for somebody to take what came out.

_POLL_S = 0.5
_ATTEMPTS = 10


def end_with_parent() -> None:
    """Send this process SIGTERM once its parent is gone, however that went. To be called by the process itself."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="waits for the parent's end", daemon=True).start()


def end_group_with_parent(parent: int) -> None:
    """SIGKILL to this process, all that it has started, and its group, once `parent` is not its parent.

    For a process in a session of its own, which no signal of the terminal reaches. To be called by the process itself.
    """

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_S)
        for _ in range(_ATTEMPTS):  # other threads of this process may go on starting some meanwhile
            if not (started := tree_of(os.getpid())[1:]):
                break
            kill_groups(started)
            for process in started:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            gone_within(started, _POLL_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="waits for the parent's end", daemon=True).start()
