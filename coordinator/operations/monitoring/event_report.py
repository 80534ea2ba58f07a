"""How far a service has come in event time, of the manifest of an epoch: plain data, for those who look on."""

from __future__ import annotations

from typing import Any

from tpc.event_time import time_in
from tpc.json import parse
from tpc.manifest import Manifest


def event_time_of(manifest: Manifest | None) -> dict[str, Any] | None:
    """The watermark after an epoch, the sources that were idle in it, and its events that were too far ahead.

    None without an epoch, for one of a Spark query, and for one of a service whose events have no time.
    """
    if manifest is None or not manifest.barrier.offsets_file.startswith("{"):
        return None
    time = time_in(parse(manifest.barrier.offsets_file.encode()))
    if not time.sources:
        return None
    return {
        "watermark_ms": time.reached_ms,
        "now_ms": time.now_ms,
        "idle": sorted(time.idle),
        "too_far": {each.name: each.too_far for each in time.sources if each.too_far},
        "sources": {each.name: each.ended_ms for each in time.sources},
    }
