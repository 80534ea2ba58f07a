"""Looks, while a pass runs, who leads, and whether a dead coordinator's branches hold the pass up.

A fenced coordinator's tasks hold locks that its successor needs, and what a fenced one prepares late is met by the
successor's tasks: neither waits for the end of a pass. The watch is a thread beside it; it decides nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tpc.coordinator.kernel.engine.runner import EpochRunner
from tpc.coordinator.kernel.log.journal import Journal
from tpc.errors import FencedError, TpcError

logger = logging.getLogger(__name__)


class Watch:
    """Watches one pass after the other. `interval_s` None: nobody watches."""

    def __init__(self, journal: Journal, interval_s: float | None) -> None:
        self._journal = journal
        self._interval_s = interval_s
        self.fenced: FencedError | None = None
        """How it was seen, in the last pass, that another coordinator leads."""

    @contextmanager
    def over(self, runner: EpochRunner, clear_the_way: Callable[[], int]) -> Iterator[None]:
        """Watch while the body runs the pass of `runner`: end it when another leads, else `clear_the_way`."""
        self.fenced = None
        if self._interval_s is None:
            yield
            return
        over = threading.Event()
        arguments = (self._interval_s, over, runner, clear_the_way)
        thread = threading.Thread(target=self._watch, args=arguments, name="tpc-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _cancel(self, interval_s: float, over: threading.Event, runner: EpochRunner) -> None:
        """Again and again: a pass that has not come to its tasks yet has none that could be ended."""
        while True:
            try:
                runner.cancel()
            except Exception:  # the next try may end it, and no outcome rests on that
                logger.exception("the pass of a coordinator that does not lead any more could not be ended")
            if over.wait(interval_s):
                return

    def _watch(
        self, interval_s: float, over: threading.Event, runner: EpochRunner, clear_the_way: Callable[[], int]
    ) -> None:
        while not over.wait(interval_s):
            try:
                self._journal.require_leading()
                clear_the_way()
            except FencedError as error:
                self.fenced = error
                self._cancel(interval_s, over, runner)
                return
            except TpcError as error:  # what it means is found where the epoch is decided
                logger.debug("the watch over the pass saw nothing: %s", error.what)
            except Exception:  # of a sink's own; who leads must be looked at again
                logger.exception("the watch over the pass could not clear its way")
