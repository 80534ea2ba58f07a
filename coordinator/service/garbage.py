"""When a loop's process looks for old garbage that refers to itself: between epochs, not in the middle of one.

Every event of an epoch lives until its end. Python would take them for old objects, and look through them and through
all libraries every some ten thousand events: a fifth of the processor's time of a loop, and more with a state
(measured). Young objects, as functions leave them behind, are looked through at any time as ever.
"""

from __future__ import annotations

import gc

_NEVER = 1_000_000_000


class Garbage:
    """Of this process, from `begin` to `end`. A program that has switched Python's collector off is left alone."""

    def __init__(self) -> None:
        self._thresholds: tuple[int, int, int] | None = None
        self._was_frozen = False
        self._is_first = True

    def begin(self) -> None:
        """What is there, libraries above all, is set aside: looked through again at the end."""
        if gc.isenabled():
            self._thresholds, self._was_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
            gc.set_threshold(*self._thresholds[:2], _NEVER)
            self._set_aside()

    def between_epochs(self) -> None:
        """Look for it, if so many new objects have grown old that Python would."""
        if self._thresholds is None:
            return
        if self._is_first:  # which has loaded what was still to be loaded
            self._is_first = False
            self._set_aside()
        elif gc.get_count()[2] > self._thresholds[2]:
            gc.collect()

    def end(self) -> None:
        """As it was before; what the program itself has set aside stays so."""
        if self._thresholds is not None:
            gc.set_threshold(*self._thresholds)
            self._thresholds = None
            if not self._was_frozen:
                gc.unfreeze()

    def _set_aside(self) -> None:
        gc.collect()
        gc.freeze()
