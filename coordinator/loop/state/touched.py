"""An entry of a state that the running epoch has read or written, and when, by event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tpc.coordinator.loop.state.codec import encode

GONE = object()
"""The value of a key that is not there any more."""
_FIXED = frozenset((int, str, float, bytes, bool, type(None)))
"""What cannot be changed in place."""


@dataclass(slots=True)
class Touched:
    """Its value, and the newest event time at which the epoch has read or written it.

    `seen` is how it stood when it was first read after it was written, at the event time `seen_ms`; None where none of
    that matters.
    """

    value: Any
    is_written: bool
    event_ms: int | None
    seen: bytes | None = None
    seen_ms: int | None = None

    def read_at(self, now_ms: int | None) -> None:
        """It is handed out: it may be changed in place now, or only be looked at, which the cut tells."""
        is_newer = now_ms is not None and (self.event_ms is None or now_ms > self.event_ms)
        if not is_newer or type(self.value) in _FIXED:
            return
        if self.is_written and self.seen is None:
            self.seen, self.seen_ms = encode(self.value), self.event_ms
        self.event_ms = now_ms

    def changed_ms(self, value: bytes) -> int | None:
        """The event time of its last change, given what it came to."""
        return self.seen_ms if value == self.seen else self.event_ms
