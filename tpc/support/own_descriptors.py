"""A file descriptor that only this process keeps: a forked child closes its copy at once.

A lock of flock(2) belongs to the open file, not to a process. As long as any child has a copy of the descriptor, the
lock is held, even if the process that took it is dead. An executed program gets no descriptors from Python (PEP 446).
"""

from __future__ import annotations

import os
from contextlib import suppress
from weakref import WeakSet

_OPEN: WeakSet[OwnDescriptor] = WeakSet()


class OwnDescriptor:
    """`number` is the descriptor, open until `close`."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_closed = False
        _OPEN.add(self)

    def close(self) -> None:
        """Close the descriptor. Idempotent. A lock is released with the last copy."""
        if not self.is_closed:
            self.is_closed = True
            os.close(self.number)


def _close_all() -> None:
    for each in list(_OPEN):
        with suppress(OSError):
            each.close()


os.register_at_fork(after_in_child=_close_all)
