"""The time to live of a state's entries: which one holds in an epoch, and what follows for entries that are there.

Pure rules; where entries expire is `coordinator/service/state/expiry.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from tpc.watermark import EpochTime


class TimeToLive(NamedTuple):
    """The time to live of a state's entries in an epoch, and the one before the epoch.

    If they differ, the new one holds for all entries from this epoch on. None: entries stay until they are deleted.
    """

    ttl_ms: int | None
    before_ms: int | None

    def end_of(self, ends_ms: int | None, now_ms: int | None) -> int | None:
        """The new end of an entry. An entry that had no end, so that its time is unknown, counts from now on."""
        if self.ttl_ms is None:
            return None
        if ends_ms is None or self.before_ms is None:
            return None if now_ms is None else now_ms + self.ttl_ms
        return ends_ms - self.before_ms + self.ttl_ms


def time_to_live_in(ttl_ms: int | None, before: TimeToLive | None, time: EpochTime) -> TimeToLive:
    """The time to live of a state in the epoch after one in which it was `before`; None: nothing is on record.

    Entries that had no end can get one only once event time is known; until then they stay without an end.
    """
    before_ms = ttl_ms if before is None else before.ttl_ms
    if before_ms is None and ttl_ms is not None and time.reached_ms is None:
        return TimeToLive(None, None)
    return TimeToLive(ttl_ms, before_ms)
