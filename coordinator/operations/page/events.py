"""Live updates: a stream of server-sent events that tells a browser which pipeline looks different now.

An event holds no page: the browser loads again the page it shows. Between changes it hears when the logs were last
read, so that it can tell a log at rest from a page that is dead.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.operations.bounded_server import Pieces, Wake
from tpc.coordinator.operations.page import log_summary
from tpc.coordinator.operations.page.log_watcher import Watched

READ_EVERY_S = 5.0
"""How often a browser hears when the logs were read, if nothing changes."""
RETRY_MS = 2000
"""After how long a browser connects again."""


class Changes:
    """Wakes the streams of all browsers. For any thread."""

    def __init__(self) -> None:
        self._listening: set[Wake] = set()
        self._lock = threading.Lock()

    def tell(self) -> None:
        """Something looks different now."""
        with self._lock:
            for wake in self._listening:
                wake.tell()

    @contextmanager
    def heard_by(self, wake: Wake) -> Iterator[None]:
        """`wake` is told of each change."""
        with self._lock:
            self._listening.add(wake)
        try:
            yield
        finally:
            with self._lock:
                self._listening.discard(wake)


class Noticed:
    """Tells `changes` when a look differs from the one before it; the watching threads call it after each look."""

    def __init__(self, changes: Changes, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock
        self._last: dict[int, dict[str, Any]] = {}

    def __call__(self, one: Watched) -> None:
        """After a look at `one`."""
        said = log_summary.outline(one, self._clock.wall())
        if self._last.get(one.number) != said:  # each thread has a key of its own
            self._last[one.number] = said
            self._changes.tell()


def stream(watched: Sequence[Watched], changes: Changes, clock: Clock) -> Pieces:
    """The events: `look` for each pipeline at first and whenever it changes, `read` in between."""

    def events(wake: Wake) -> Iterator[bytes]:
        known: dict[int, dict[str, Any]] = {}
        with changes.heard_by(wake):
            yield f"retry: {RETRY_MS}\n\n".encode()
            while not wake.is_over:
                wake.clear()  # before looking: what changes from here on wakes again
                now = clock.wall()
                for one in watched:
                    said = log_summary.outline(one, now)
                    if known.get(one.number) != said:
                        known[one.number] = said
                        yield _event("look", said)
                yield _event("read", {"now": now, "read_at": {one.number: one.look.read_at for one in watched}})
                if not wake.is_over:
                    wake.wait(READ_EVERY_S)

    return events


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
