"""Times that processes of one machine can compare, whatever happens to its clock: seconds since the boot."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path

import psutil

TICK_S = 0.02
"""The begin of a process is rounded to hundredths of a second: two begins less than this apart count as equal."""


def which() -> str:
    """The id of the machine's current boot; if the system has none, the time of the boot, which a clock may move."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(round(psutil.boot_time()))


def process_began() -> float:
    """When this process began, exact to a hundredth of a second, since both times have the same offset.

    Computed once, so that a change of the clock does not matter. With the process number it identifies this process,
    also among processes of the same number in other containers.
    """
    return _began(os.getpid())


def is_beginning_of(process: int, began: float) -> bool:
    """Whether the process of that number began at that time. Raises `psutil.NoSuchProcess`."""
    return abs(_beginning(process) - began) <= TICK_S


def is_running(process: int, began: float) -> bool:
    """Whether the process of that number and begin still runs. A zombie has ended; other containers are not visible."""
    try:
        return is_beginning_of(process, began) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@lru_cache(maxsize=1)
def _began(process: int) -> float:
    return _beginning(process)


def _beginning(process: int) -> float:
    boot_s = psutil.boot_time()  # first: psutil 5.9 keeps it for `create_time`, and the clock may be set in between
    return round(psutil.Process(process).create_time() - boot_s, 2)


def now() -> float:
    """The current time."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return round(time.time() - psutil.boot_time() if clock is None else time.clock_gettime(clock), 2)
