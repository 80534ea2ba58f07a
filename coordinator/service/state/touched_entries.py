"""What an epoch has touched of a state: entries that it has read or written, and until when each lives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.codec import decode, encode
from tpc.describing import described
from tpc.errors import DataError
from tpc.user_code import UnkeptValueError
from tpc.watermark import later

GONE = object()
"""The value of a key that is not there any more."""
FIXED = frozenset((int, str, float, bytes, bool, type(None), Decimal, UUID, date, datetime, timedelta))
"""What cannot be changed in place."""
SURELY_KEPT = FIXED - {int, float, Decimal, datetime}
"""What can be kept whatever it is: no number of too many digits, no time of a zone without a name."""


@dataclass(slots=True)
class Touched:
    """Its value, and the end of its life, which never goes back: a late event does not shorten it.

    `held` is what was there before the epoch, where that was read; None where it was not. `is_new`: its life began in
    this epoch, so that the end of what was there before it does not matter.

    A value that can be changed in place is encoded when it is handed out: `seen` is how it was then, at the event time
    `handed_ms`. When it is handed out for another event, and at the cut, it is compared with that. So the time of a
    change is that of the event which made it, wherever epochs are cut.
    """

    value: Any
    is_written: bool
    ends_ms: int | None = None
    is_new: bool = False
    held: Change | None = None
    seen: bytes | None = None
    handed_ms: int | None = None

    def handed(self, now_ms: int | None, ttl_ms: int) -> Any:
        """Its value, handed out to the event at hand, of a state whose entries have a time to live."""
        if type(self.value) not in FIXED and (self.seen is None or now_ms != self.handed_ms):
            encoded = left(self.value)
            self.settle(encoded, ttl_ms)
            self.seen, self.handed_ms = encoded, now_ms
        return self.value

    def live_on(self, now_ms: int | None, ttl_ms: int) -> bool:
        """It is written at this time: it lives at least as long as it would have. Whether it had no end before."""
        if self.seen is not None:
            if now_ms != self.handed_ms:
                self.settle(left(self.value), ttl_ms)
            self.seen = None
        had_none = self.ends_ms is None
        if now_ms is not None and (self.ends_ms is None or now_ms + ttl_ms > self.ends_ms):
            self.ends_ms = now_ms + ttl_ms
        return had_none

    def settle(self, value: bytes, ttl_ms: int | None) -> None:
        """Its value is these bytes now: where they are others than were handed out, it lives on from that event."""
        if self.seen is not None and value != self.seen:
            self.seen = value
            self.ends_ms = later(self.ends_ms, end_of(self.handed_ms, ttl_ms))

    def end(self, before: Change | None, ttl_ms: int | None) -> int | None:
        """The end of its life, given what was there before the epoch. What was changed in place is settled first."""
        if self.seen is not None and self.value is not GONE:
            self.settle(left(self.value), ttl_ms)
        return self.ends_ms if self.is_new or before is None else later(self.ends_ms, before.expires_ms)

    def expire(self) -> None:
        """Its life has ended."""
        self.value, self.is_written, self.ends_ms, self.seen = GONE, True, None, None

    def became(self, key: bytes, before: Change | None, ttl_ms: int | None) -> Change | None:
        """What the epoch has made of it, given what was there; None: it is as it was."""
        if self.value is GONE:
            return None if before is None else Change(key, None, None)
        value = encode(self.value)
        if not self.is_written and before is not None and value == before.value:
            return None
        change = Change(key, value, None if ttl_ms is None else self.end(before, ttl_ms))
        return None if change == before else change


def end_of(written_ms: int | None, ttl_ms: int | None) -> int | None:
    """The end of the life of what is written at an event time."""
    return None if written_ms is None or ttl_ms is None else written_ms + ttl_ms


def left(value: Any) -> bytes:
    """The bytes of a value as an event has left it. Raises `UnkeptValueError`."""
    try:
        return encode(value)
    except DataError as error:
        raise UnkeptValueError(error.what, column=error.column, remedy=error.remedy) from error


def of_key(error: DataError, state: str, key: bytes) -> DataError:
    """The error of a value that cannot be kept, with the state and the key of which it is. Returns itself."""
    named = described(decode(key), 60)
    error.key = named
    error.what = f"state {state!r}, key {named}: {error.what}"
    error.args = (error.what,)
    return error
