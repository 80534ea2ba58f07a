"""SIGKILL to a pipeline: its driver, its JVM, its Python workers, all at once; and waiting until they are gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil

from tpc.errors import LocalStackError

DEATH_TIMEOUT_S = 20.0


def strike(pid: int) -> list[psutil.Process]:
    """SIGKILL to process `pid`, everything it started, and their process groups; the processes that there were.

    PySpark's worker daemon makes a process group of its own, so the driver's group alone would leave the workers
    to find out by themselves.
    """
    try:
        driver = psutil.Process(pid)
        family = [driver, *driver.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
    groups = set()
    for process in family:
        with suppress(ProcessLookupError):
            groups.add(os.getpgid(process.pid))
    groups.discard(os.getpgrp())
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    return family


def await_death(processes: Sequence[psutil.Process]) -> None:
    """Returns when all are gone; raises `LocalStackError` if they do not go."""
    deadline = time.monotonic() + DEATH_TIMEOUT_S
    while any(map(lives, processes)):
        if time.monotonic() > deadline:
            raise LocalStackError(f"processes outlive SIGKILL: {list(processes)}")
        time.sleep(0.005)


def lives(process: psutil.Process) -> bool:
    """Whether a process is there and is no zombie: the driver is one until its supervisor collects it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
