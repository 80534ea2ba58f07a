"""What is due first in a content with ends, by which time it is, and times for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from tpc.coordinator.service.state.changes import Change
from tpc.coordinator.service.state.contents import Contents

By = Literal["event time", "clock"]
EVENT_TIME: By = "event time"
CLOCK: By = "clock"


def first_ms(contents: Contents, cut: Mapping[bytes, Change]) -> int | None:
    """When the first entry of a content ends that has an end, once an epoch has changed `cut` of it."""
    ends = [change.expires_ms for change in cut.values() if change.expires_ms is not None]
    held = contents.first_end(cut)
    return min([*ends, *([] if held is None else [held])], default=None)


def instant(ms: int) -> str:
    """A time for people; the end of an entry may lie after the year 9999."""
    try:
        return f"{(datetime(1970, 1, 1) + timedelta(milliseconds=ms)).isoformat(' ', 'milliseconds')} UTC"
    except OverflowError:
        return f"{ms} ms since 1970"
