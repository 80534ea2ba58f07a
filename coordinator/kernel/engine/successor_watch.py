"""Looks, during a pass, who leads, and whether a dead coordinator's branches hold it up.

A fenced coordinator's tasks hold locks that its successor needs, and what a fenced one prepares late is met by the
successor's tasks: neither waits for the end of the pass. The watch is a background thread; it decides nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from tpc.coordinator.kernel.engine.leadership import Leadership
from tpc.errors import FencedError, TpcError

logger = logging.getLogger(__name__)


class Cancellable(Protocol):
    """The pass over an epoch's rows, as the engine sees it."""

    def cancel(self) -> None:
        """End it: nothing of it is wanted any more. Called by another thread, and again until it has ended."""


class SuccessorWatch:
    """Watches one pass after the other. `interval_s` None: nobody watches."""

    def __init__(self, leadership: Leadership, interval_s: float | None) -> None:
        self._leadership = leadership
        self._interval_s = interval_s
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self.fenced: FencedError | None = None
        """How it was seen, in the last pass, that another coordinator leads."""

    def begin(self, epoch_pass: Cancellable, sweep_held_up: Callable[[], int]) -> None:
        """Watch until `end`: cancel the pass when another coordinator leads, else `sweep_held_up`."""
        self.fenced = None
        if self._interval_s is None:
            return
        self._is_over = threading.Event()
        arguments = (self._interval_s, epoch_pass, sweep_held_up)
        self._thread = threading.Thread(target=self._watch, args=arguments, name="tpc-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Watch no longer; when this returns, nothing is cancelled or cleared any more. Idempotent."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self, interval_s: float, epoch_pass: Cancellable, sweep_held_up: Callable[[], int]) -> None:
        while not self._is_over.wait(interval_s):
            try:
                self._leadership.require()
                sweep_held_up()
            except FencedError as error:
                self.fenced = error
                self._cancel(interval_s, epoch_pass)
                return
            except TpcError as error:  # what it means is found where the epoch is decided
                logger.debug("the watch over the pass saw nothing: %s", error.what)
            except Exception:  # of a sink's own; who leads must be looked at again
                logger.exception("the watch over the pass could not clear its way")

    def _cancel(self, interval_s: float, epoch_pass: Cancellable) -> None:
        """Again and again: a pass that has not come to its tasks yet has none that could be ended."""
        while True:
            try:
                epoch_pass.cancel()
            except Exception:  # the next try may end it, and no outcome rests on that
                logger.exception("the pass of a coordinator that does not lead any more could not be cancelled")
            if self._is_over.wait(interval_s):
                return
