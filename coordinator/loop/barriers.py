"""The cut of a loop's epoch as it stands in the manifest, in the place where Spark's does: where each source stood.

What Spark's `offsets/N` is to a query is a text of the loop's own here: the names of the sources, in the order of the
positions, and the greatest event time that each had seen at the end of the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpc.errors import ConfigurationError, HistoryMismatchError
from tpc.json import canonical, parse
from tpc.manifest import Barrier, Manifest

FORMAT = 1


@dataclass(frozen=True)
class SourceCut:
    """One source's part of a cut.

    `time_ms` is the greatest event time up to its end, `start_ms` that up to its start; None where nobody tells it.
    """

    name: str
    start: str
    end: str
    start_ms: int | None = None
    time_ms: int | None = None


def barrier_of(cuts: Sequence[SourceCut], *, stateful: bool) -> Barrier:
    """The cut of an epoch."""
    sources = [{"name": cut.name, "start_ms": cut.start_ms, "time_ms": cut.time_ms} for cut in cuts]
    text = canonical({"loop": FORMAT, "sources": sources}).decode()
    starts, ends = tuple(cut.start for cut in cuts), tuple(cut.end for cut in cuts)
    return Barrier(text, starts, ends, stateful=stateful)


def cuts_of(manifest: Manifest) -> list[SourceCut]:
    """The inverse. Raises `HistoryMismatchError` for an epoch that a Spark query has decided."""
    barrier = manifest.barrier
    if not barrier.offsets_file.startswith("{"):
        raise HistoryMismatchError(
            "this directory is the checkpoint of a Spark query, not of a loop",
            pipeline=str(manifest.pipeline),
            epoch=manifest.epoch,
            remedy="give the service a directory of its own.",
        )
    sources = parse(barrier.offsets_file.encode())["sources"]
    return [
        SourceCut(source["name"], start, end, source["start_ms"], source["time_ms"])
        for source, start, end in zip(sources, barrier.start, barrier.end, strict=True)
    ]


def check_sources(cuts: Sequence[SourceCut], names: Sequence[str]) -> None:
    """Every source of before must be there still: left out for a while, it would begin anew and double its events."""
    gone = sorted({cut.name for cut in cuts} - set(names))
    if gone:
        raise ConfigurationError(
            f"the service has read from source {gone[0]!r} before, and reads from it no more",
            remedy="read from it under the same name (name=...), if need be with a function that does nothing.",
        )


def watermark_ms(times: Sequence[int | None]) -> int | None:
    """Up to which event time all sources that tell it have come; None while one of them has seen nothing."""
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None
