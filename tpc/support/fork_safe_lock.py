"""A lock of a module that a forked process does not inherit as held.

A fork copies the memory, but only one thread. A lock that another thread held would stay held for ever in the new
process, since the thread that would release it is not there.
"""

from __future__ import annotations

import os
import threading


class ForkSafeLock:
    """A reentrant lock, made once at module level, since hooks of a fork cannot be removed.

    With `fork_waits` a fork waits until no thread holds the lock, so that the child finds the guarded data whole: for
    short work that does not wait. Without it the child gets a free lock at once, and may find the guarded data half
    changed: for data that each process keeps under its own process number.
    """

    def __init__(self, *, fork_waits: bool) -> None:
        self._lock = threading.RLock()
        if not hasattr(os, "register_at_fork"):  # a system without forks
            return
        if fork_waits:
            os.register_at_fork(before=self.__enter__, after_in_parent=self.__exit__, after_in_child=self.__exit__)
        else:
            os.register_at_fork(after_in_child=self._make_free)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()

    def _make_free(self) -> None:
        if self._lock.acquire(blocking=False):
            self._lock.release()  # free, or held by the thread that forked, which is here and will release it
        else:
            self._lock = threading.RLock()
