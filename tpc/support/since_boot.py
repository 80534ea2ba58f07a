"""Moments of this machine that processes can compare, whoever sets its clock: seconds since it was booted."""

from __future__ import annotations

import time
from pathlib import Path

import psutil


def which() -> str:
    """Which boot of the machine this is; where the system has no name for it, its moment, which a clock may move."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return str(round(psutil.boot_time()))


def process_began() -> float:
    """When this process began; exact to a hundredth, since both times are off by the same."""
    return round(psutil.Process().create_time() - psutil.boot_time(), 2)


def now() -> float:
    """This moment."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return round(time.time() - psutil.boot_time() if clock is None else time.clock_gettime(clock), 2)
