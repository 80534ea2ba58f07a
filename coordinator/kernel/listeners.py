"""Those who are told of a running pipeline: each hears of every step, and none can disturb the engine or another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.kernel.epoch_lines import write_line
from tpc.coordinator.kernel.notices import Notice, Notices
from tpc.coordinator.kernel.source_lag import SourceLag
from tpc.coordinator.kernel.transition import Transition

logger = logging.getLogger(__name__)


class Listener(Protocol):
    """Somebody who is told. `tell` runs in the engine's thread: constant work, no waiting."""

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """A step of the machine, with the notice that it is worth, if any."""

    def close(self) -> None:
        """Nothing more will be told."""


class Listeners:
    """An observer of the engine (`tpc.coordinator.kernel.transition`): it writes the log lines and tells listeners."""

    def __init__(
        self, clock: Clock, listeners: Sequence[Listener], hear_of_sources: Sequence[Callable[[SourceLag], None]] = ()
    ) -> None:
        self._notices = Notices(clock)
        self._listeners = listeners
        self._hear_of_sources = hear_of_sources

    def __call__(self, transition: Transition) -> None:
        """Write the line of a notice, and tell every listener of the step; an error of any of them is logged."""
        notice: Notice | None = None
        with _shielded():
            notice = self._notices.of(transition)
            if notice is not None:
                write_line(notice)
        for listener in self._listeners:
            with _shielded():
                listener.tell(transition, notice)

    def tell_of_sources(self, lag: SourceLag) -> None:
        """What waits in the sources now, to those who want to hear of it. Not in the engine's thread."""
        for hear in self._hear_of_sources:
            with _shielded():
                hear(lag)

    def close(self) -> None:
        """Let every listener go. Idempotent."""
        listeners, self._listeners = self._listeners, ()
        for listener in listeners:
            with _shielded():
                listener.close()


@contextmanager
def _shielded() -> Iterator[None]:
    try:
        yield
    except Exception:
        logger.exception("who is told of the pipeline has failed; the pipeline goes on")
