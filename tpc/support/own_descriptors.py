"""A file's descriptor that is this process's alone: a child that is forked closes its copy at once.

A lock of flock(2) belongs to what was opened, not to a process: as long as any child has a copy, the lock is held,
though the process that took it is dead. A program that is executed gets none of Python's descriptors anyway (PEP 446).
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
        """Idempotent. A lock goes with the last copy."""
        if not self.is_closed:
            self.is_closed = True
            os.close(self.number)


def _close_all() -> None:
    for each in list(_OPEN):
        with suppress(OSError):
            each.close()


os.register_at_fork(after_in_child=_close_all)
