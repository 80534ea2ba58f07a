"""Live updates: a stream of server-sent events that tells a browser which pipeline looks different now.

An event holds no page: the browser loads again the page it shows. Between changes it hears when the logs were last
read, so that it can tell a log at rest from a page that is dead.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tpc.coordinator.kernel.clock import Clock
from tpc.coordinator.operations.page import facts
from tpc.coordinator.operations.page.watching import Watched

READ_EVERY_S = 5.0
"""How often a browser hears when the logs were read, if nothing changes."""
RETRY_MS = 2000
"""After how long a browser connects again."""


class Changes:
    """Wakes who listens for changes; `tell` and `end` may be called from any thread, and from a signal's handler."""

    def __init__(self) -> None:
        self.are_over = False
        self._listening: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._lock = threading.RLock()  # a signal may arrive in a thread that holds it

    def tell(self) -> None:
        """Something looks different now."""
        with self._lock:
            for loop, woken in self._listening:
                loop.call_soon_threadsafe(woken.set)

    def end(self) -> None:
        """The page is about to be closed: every stream ends."""
        self.are_over = True
        self.tell()

    @contextmanager
    def heard(self) -> Iterator[asyncio.Event]:
        """An event of the running loop that is set at each change."""
        one = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._listening.add(one)
        try:
            yield one[1]
        finally:
            with self._lock:
                self._listening.discard(one)


class Noticed:
    """Tells `changes` when a look differs from the one before it; the watching threads call it after each look."""

    def __init__(self, changes: Changes, clock: Clock) -> None:
        self._changes = changes
        self._clock = clock
        self._last: dict[int, dict[str, Any]] = {}

    def __call__(self, one: Watched) -> None:
        """After a look at `one`."""
        said = facts.outline(one, self._clock.wall())
        if self._last.get(one.number) != said:  # each thread has a key of its own
            self._last[one.number] = said
            self._changes.tell()


async def stream(watched: Sequence[Watched], changes: Changes, clock: Clock) -> AsyncIterator[str]:
    """The events: `look` for each pipeline at first and whenever it changes, `read` in between."""
    known: dict[int, dict[str, Any]] = {}
    with changes.heard() as woken:
        yield f"retry: {RETRY_MS}\n\n"
        while not changes.are_over:
            woken.clear()  # before looking: what changes from here on wakes again
            now = clock.wall()
            for one in watched:
                said = facts.outline(one, now)
                if known.get(one.number) != said:
                    known[one.number] = said
                    yield _event("look", said)
            yield _event("read", {"now": now, "read_at": {one.number: one.look.read_at for one in watched}})
            try:
                await asyncio.wait_for(woken.wait(), READ_EVERY_S)
            except asyncio.TimeoutError:
                continue


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
