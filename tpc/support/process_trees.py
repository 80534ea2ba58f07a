"""A process and all that it has started: found, ended at once, waited for.

PySpark makes several process groups (the driver's, the JVM's, the workers' daemon's), so a group alone is not a
pipeline: the tree is walked, and the groups of all its members are ended too.
"""

from __future__ import annotations

import os
import signal
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
