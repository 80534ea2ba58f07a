"""An entry of a state that the running epoch has read or written, and when, by event time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tpc.coordinator.loop.state.changes import Change
from tpc.coordinator.loop.state.codec import encode

GONE = object()
"""The value of a key that is not there any more."""
_FIXED = frozenset((int, str, float, bytes, bool, type(None)))
"""What cannot be changed in place."""


@dataclass(slots=True)
class Touched:
    """Its value, and the newest event time at which the epoch has read or written it.

    `seen` is how it stood when it was first read after it was written, at the event time `seen_ms`; None where none of
    that matters. `held` is what was there before the epoch, where that was read; None where it was not.
    """

    value: Any
    is_written: bool
    event_ms: int | None
    seen: bytes | None = None
    seen_ms: int | None = None
    held: Change | None = None

    def read_at(self, now_ms: int | None) -> Any:
        """Its value, handed out: it may be changed in place now, or only be looked at, which the cut tells."""
        is_newer = now_ms is not None and (self.event_ms is None or now_ms > self.event_ms)
        if is_newer and type(self.value) not in _FIXED:
            if self.is_written and self.seen is None:
                self.seen, self.seen_ms = encode(self.value), self.event_ms
            self.event_ms = now_ms
        return self.value

    def became(
        self, key: bytes, before: Change | None, expires_ms: Callable[[int | None], int | None]
    ) -> Change | None:
        """What the epoch has made of it, given what was there; None: it is as it was.

        `expires_ms` tells when what was changed at an event time expires.
        """
        if self.value is GONE:
            return None if before is None else Change(key, None, None)
        value = encode(self.value)
        if not self.is_written and before is not None and value == before.value:
            return None
        change = Change(key, value, expires_ms(self.changed_ms(value)))
        return None if change == before else change

    def changed_ms(self, value: bytes) -> int | None:
        """The event time of its last change, given what it came to."""
        return self.seen_ms if value == self.seen else self.event_ms
