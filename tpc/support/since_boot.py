"""Moments of this machine that processes can compare, whoever sets its clock: seconds since it was booted."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path

import psutil

TICK_S = 0.02
"""A process's beginning is told in hundredths, rounded: within so much nobody can say what was first."""


def which() -> str:
    """Which boot of the machine this is; where the system has no name for it, its moment, which a clock may move."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(round(psutil.boot_time()))


def process_began() -> float:
    """When this process began; exact to a hundredth, since both times are off by the same.

    Said once, whatever happens to the clock: with its number it tells this process from others, also from one of the
    same number in another container.
    """
    return _began(os.getpid())


def is_beginning_of(process: int, began: float) -> bool:
    """Whether the process of that number is the one that began then. Raises `psutil.NoSuchProcess`."""
    return abs(_beginning(process) - began) <= TICK_S


def is_running(process: int, began: float) -> bool:
    """Whether the process that began then has not ended; one of another container is not seen, and one that waits to be
    reaped has ended."""
    try:
        return is_beginning_of(process, began) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@lru_cache(maxsize=1)
def _began(process: int) -> float:
    return _beginning(process)


def _beginning(process: int) -> float:
    boot_s = psutil.boot_time()  # first: psutil 5.9 keeps it for `create_time`, and a clock may have been set meanwhile
    return round(psutil.Process(process).create_time() - boot_s, 2)


def now() -> float:
    """This moment."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return round(time.time() - psutil.boot_time() if clock is None else time.clock_gettime(clock), 2)
