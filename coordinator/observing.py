"""Those who are told of a running pipeline: each hears of every step, and none can disturb the engine or another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from tpc.coordinator.clock import Clock
from tpc.coordinator.notices import Notice, Notices
from tpc.coordinator.transition import Transition

logger = logging.getLogger(__name__)


class Listener(Protocol):
    """Somebody who is told. `tell` runs in the engine's thread: constant work, no waiting."""

    def tell(self, transition: Transition, notice: Notice | None) -> None:
        """A step of the machine, with the notice that it is worth, if any."""

    def close(self) -> None:
        """Nothing more will be told."""


class Observing:
    """An observer of the engine (`tpc.coordinator.transition`) that hands on to listeners."""

    def __init__(self, clock: Clock, listeners: Sequence[Listener]) -> None:
        self._notices = Notices(clock)
        self._listeners = listeners

    def __call__(self, transition: Transition) -> None:
        """Tell every listener; what one of them raises is logged."""
        notice = self._notices.of(transition)
        for listener in self._listeners:
            _shielded(lambda one=listener: one.tell(transition, notice))  # type: ignore[misc]

    def close(self) -> None:
        """Let every listener go. Idempotent."""
        listeners, self._listeners = self._listeners, ()
        for listener in listeners:
            _shielded(listener.close)


def _shielded(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        logger.exception("who is told of the pipeline has failed; the pipeline goes on")
