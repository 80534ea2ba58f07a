"""Finds a process and all that it has started, ends them at once, and waits for their end.

A pipeline can consist of several process groups (with PySpark those of Python, the JVM and the daemon of the workers).
So the whole tree is walked, and the groups of all its members are ended too.
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
    """Process `pid` and all its descendants; empty if it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Whether a process exists and is not a zombie, which is a process that has ended and that its parent must reap."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_tree(pid: int) -> list[psutil.Process]:
    """Send SIGKILL to process `pid`, to its descendants, and to their process groups. Returns these processes.

    The caller's own group is left out. If the caller is one of the processes, it ends itself last.
    """
    processes = tree_of(pid)
    kill_groups(processes)
    for process in sorted(processes, key=lambda process: process.pid == os.getpid()):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return processes


def kill_groups(processes: Iterable[psutil.Process]) -> None:
    """Send SIGKILL to the process groups of `processes`, except the caller's own."""
    groups = set()
    for process in processes:
        with suppress(ProcessLookupError):
            groups.add(os.getpgid(process.pid))
    for group in groups - {os.getpgrp()}:
        kill_group(group)


def kill_group(group: int) -> None:
    """Send SIGKILL to a process group; does nothing if it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def gone_within(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait until all `processes` have ended, at most `timeout_s`; returns those that still run."""
    waited_for = list(processes)
    until(lambda: not any(map(is_alive, waited_for)), timeout_s)
    return [process for process in waited_for if is_alive(process)]


# End a process when its parent is killed. Otherwise it would go on computing, and then wait for ever for a reader.

_POLL_S = 0.5
_ATTEMPTS = 10


def end_with_parent() -> None:
    """Send SIGTERM to this process once its parent has ended for any reason. The process itself calls this."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="waits for the parent's end", daemon=True).start()


def end_group_with_parent(parent: int) -> None:
    """Send SIGKILL to this process, its descendants and its group, once `parent` is no longer its parent.

    For a process in a session of its own, which gets no signals of the terminal. The process itself calls this.
    """

    def wait() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_S)
        for _ in range(_ATTEMPTS):  # other threads of this process may start more processes meanwhile
            if not (started := tree_of(os.getpid())[1:]):
                break
            kill_groups(started)
            for process in started:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            gone_within(started, _POLL_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, name="waits for the parent's end", daemon=True).start()
