"""SIGTERM asks a service to stop after its epoch. `epoch_cancellation` ends one that takes long.

A query of Spark has a handler of its own, `coordinator/spark/sigterm.py`. Until a job runs
`operations/supervision/job_process.py` handles the signal, and under `tpc run` `operations/commands/run_cli.py` passes
it on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_on_sigterm(stop: Callable[[], None]) -> Iterator[None]:
    """While this lasts SIGTERM calls `stop`; a second one ends the process at once. Signals reach the main thread only:
    in another nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(*_: object) -> None:
        signal.signal(signal.SIGTERM, before)
        stop()

    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
