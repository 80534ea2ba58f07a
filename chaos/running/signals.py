"""What a run makes of the signals that end it, and the signals that it sends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does: with everything that it started."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def send(number: signal.Signals, pids: Iterable[int]) -> None:
    """Send a signal to each of these processes; one that has ended is left out."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
