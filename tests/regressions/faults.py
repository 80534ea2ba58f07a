"""Ends and standstills of a job at a step of the protocol, in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tpc import failpoints

DEADLINE_S = 30.0


class Dead(Exception):  # noqa: N818  no error: it is what the test does
    """Stands for the end of the process: nobody of ours handles it."""


@contextmanager
def death_at(step: str, epoch: int) -> Iterator[None]:
    """What runs inside ends at this step of this epoch, as with its process."""

    def die(_: str, where: Mapping[str, Any]) -> None:
        if where["epoch"] == epoch:
            raise Dead(step)

    failpoints.install({step: die})
    try:
        with pytest.raises(Dead):
            yield
    finally:
        failpoints.install({})


class Frozen:
    """Runs `work` in a thread that stands still at `step` (of `sink`, if one is named) until it is thawed."""

    def __init__(self, work: Callable[[], None], step: str, sink: str | None = None) -> None:
        self._sink = sink
        self._reached, self._thawed, self._first = threading.Event(), threading.Event(), threading.Lock()
        self._error: Exception | None = None
        failpoints.install({step: self._stand_still})
        self._thread = threading.Thread(target=self._work, args=(work,), daemon=True)
        self._thread.start()
        assert self._reached.wait(DEADLINE_S), f"nobody came to {step}: {self._error}"
        failpoints.install({})

    def _stand_still(self, step: str, where: Mapping[str, Any]) -> None:
        if self._sink in (None, where.get("sink")) and self._first.acquire(blocking=False):
            self._reached.set()
            assert self._thawed.wait(DEADLINE_S), f"nobody thawed it at {step}"

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  whoever thaws it is told
            self._error = error

    def thaw(self) -> Exception | None:
        """Let it go on to its end; the error that it ended with."""
        self._thawed.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "it does not end"
        return self._error
