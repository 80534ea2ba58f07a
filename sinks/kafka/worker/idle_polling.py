"""Polls every producer of this process, also while it is idle.

librdkafka writes its statistics every 20 ms, and keeps them in memory until the producer is polled: 0.3 MB/s for an
unused producer, 3.6 MB/s for an open transaction to 100 partitions, 22 MB/s to 1,000 (measured). The task that fills a
transaction may not poll for minutes: its rows come slowly, another sink waits for a lock, brokers are down. So one
thread polls all producers from their creation until they are dropped, and does nothing that could wait.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Protocol
from weakref import WeakSet

from tpc.sinks.kafka.librdkafka import logger
from tpc.support.fork_safe_lock import ForkSafeLock

POLL_S = 0.1
"""How often an idle producer is polled."""


class Polled(Protocol):
    """An object that is polled until it is dropped, or until there is no reference to it."""

    @property
    def is_closed(self) -> bool:
        """Whether polling can end."""

    def poll_unless_used(self) -> None:
        """Deliver waiting reports without blocking, unless another thread does. Raises nothing."""


class _Poller:
    """The producers of one process, and the thread that polls them; it ends with the last of them."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._polled: WeakSet[Polled] = WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process_ends = threading.Event()
        atexit.register(self._end)

    def add(self, producer: Polled) -> None:
        """Poll it from now on. Raises `RuntimeError` if a container's limit of threads is reached."""
        with self._lock:
            self._polled.add(producer)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="kafka-idle-polling", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while self._poll_all():
            if self._process_ends.wait(POLL_S):
                return

    def _end(self) -> None:
        if os.getpid() == self.pid:  # a fork has no such thread, and may have inherited the event's lock as held
            self._process_ends.set()

    def _poll_all(self) -> bool:
        """Whether there was a producer to poll. Keeps no reference to a producer afterwards."""
        with self._lock:
            try:
                polled = [each for each in self._polled if not each.is_closed]
            except Exception:  # noqa: BLE001  if this thread ended, no producer would be polled any more
                logger.exception("idle producers are not polled this time")
                return True
            if not polled:
                self._thread = None
                return False
        for each in polled:
            each.poll_unless_used()
        return True


_poller: _Poller | None = None
_poller_lock = ForkSafeLock(fork_waits=False)


def keep_polled(producer: Polled) -> None:
    """Have `producer` polled in the background. A forked process has a thread, and producers, of its own."""
    global _poller  # noqa: PLW0603 - a worker process outlives its tasks, and its producers with it
    with _poller_lock:
        if _poller is None or _poller.pid != os.getpid():
            _poller = _Poller()
        poller = _poller
    poller.add(producer)
