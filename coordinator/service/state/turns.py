"""Who of one process writes to a store's file next: epochs at once, upkeep when none of them waits.

SQLite lets one in at a time, and tells nobody when it is free again: who waits sleeps a while and asks, and an upkeep
that goes from one transaction to the next keeps an epoch out for tens of milliseconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turns:
    """Of the threads that write to one file."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_taken = False
        self._epochs = 0
        """How many of them wait."""

    @contextmanager
    def taken(self, timeout_s: float, *, is_upkeep: bool) -> Iterator[None]:
        """It is the caller's turn. Raises `TimeoutError`."""
        with self._changed:
            self._epochs += not is_upkeep
            try:
                if not self._changed.wait_for(lambda: self._is_free(is_upkeep), timeout_s):
                    raise TimeoutError(f"another thread of this process has it for more than {timeout_s:g} s")
                self._is_taken = True
            finally:
                self._epochs -= not is_upkeep
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()

    def _is_free(self, is_upkeep: bool) -> bool:
        return not self._is_taken and not (is_upkeep and self._epochs)


_TURNS: dict[Path, Turns] = {}
os.register_at_fork(after_in_child=_TURNS.clear)  # a child inherits nobody's turn


def turns_of(path: Path) -> Turns:
    """Those of the file at `path` in this process."""
    place = path.absolute()
    return _TURNS.get(place) or _TURNS.setdefault(place, Turns())
