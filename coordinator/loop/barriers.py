"""The cut of a loop's epoch as it stands in the manifest, in the place where Spark's does: where each source stood.

What Spark's `offsets/N` is to a query is a text of the loop's own here: the names of the sources, in the order of the
positions, and the event time to which each had come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tpc.errors import ConfigurationError, HistoryMismatchError
from tpc.history import History
from tpc.json import canonical, parse
from tpc.manifest import Barrier, Manifest
from tpc.source import Part

FORMAT = 1


@dataclass(frozen=True)
class SourceClock:
    """The event time to which a source has come, and each of its partitions; None where nobody tells it."""

    time_ms: int | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)

    def after(self, parts: Sequence[Part], time: Callable[[Any], int]) -> SourceClock:
        """Once these were read. A partition that holds more holds the time back: it may be read long after the others.

        Where all has been read that there is, the newest event tells it.
        """
        came = dict(self.partitions)
        for part in parts:
            if part.events:
                came[part.name] = max(came.get(part.name, time(part.events[0])), *map(time, part.events))
        behind = [came.get(part.name) for part in parts if not part.is_ended] or [max(came.values(), default=None)]
        known = [self.time_ms, None if None in behind else min(at for at in behind if at is not None)]
        return SourceClock(max((at for at in known if at is not None), default=None), came)


NO_TIME = SourceClock()


@dataclass(frozen=True)
class SourceCut:
    """One source's part of a cut.

    `start_ms` is the event time up to which it had come at its start, `clock` what it has come to at its end.
    """

    name: str
    start: str
    end: str
    start_ms: int | None = None
    clock: SourceClock = NO_TIME
    is_retired: bool = False
    """Nothing of it is read any more. It is kept in mind where it stood, for whoever reads it again one day."""

    def retired(self) -> SourceCut:
        """The same source in the epochs after the last one that has read it."""
        return replace(self, start=self.end, start_ms=self.clock.time_ms, is_retired=True)


def barrier_of(cuts: Sequence[SourceCut], *, stateful: bool) -> Barrier:
    """The cut of an epoch. What is retired has no part in its positions: its topic may be gone."""
    read = [cut for cut in cuts if not cut.is_retired]
    sources = [{"name": cut.name, "start_ms": cut.start_ms, **asdict(cut.clock)} for cut in read]
    retired = [{"name": cut.name, "end": cut.end, **asdict(cut.clock)} for cut in cuts if cut.is_retired]
    text = canonical({"loop": FORMAT, "sources": sources, **({"retired": retired} if retired else {})}).decode()
    starts, ends = tuple(cut.start for cut in read), tuple(cut.end for cut in read)
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
    told = parse(barrier.offsets_file.encode())
    read = [
        SourceCut(source["name"], start, end, source["start_ms"], _clock_of(source))
        for source, start, end in zip(told["sources"], barrier.start, barrier.end, strict=True)
    ]
    retired = [SourceCut(each["name"], "", each["end"], None, _clock_of(each)) for each in told.get("retired", ())]
    return [*read, *(cut.retired() for cut in retired)]


def _clock_of(source: Mapping[str, Any]) -> SourceClock:
    return SourceClock(source["time_ms"], source["partitions"])


def last_cuts(history: History) -> tuple[Manifest | None, list[SourceCut]]:
    """The last decided epoch, and where its sources stood. Raises `HistoryMismatchError` as `cuts_of` does."""
    if history.last_intent is None:
        return None, []
    if history.last_intent not in history.manifests:
        raise HistoryMismatchError(f"the log no longer holds epoch {history.last_intent}, its last one")
    last = history.manifests[history.last_intent]
    return last, cuts_of(last)


def check_sources(cuts: Sequence[SourceCut], names: Sequence[str], retired: AbstractSet[str]) -> None:
    """Every source of before must be there still, unless it is retired: it may have been left out by mistake."""
    gone = sorted({cut.name for cut in cuts if not cut.is_retired} - {*names} - retired)
    if gone:
        raise ConfigurationError(
            f"the service has read from source {gone[0]!r} before, and reads from it no more",
            remedy=f"read from it under the same name (name=...); or say service.retire({gone[0]!r}), if what comes "
            "in it from now on is not this service's.",
        )


def watermark_ms(times: Sequence[int | None]) -> int | None:
    """Up to which event time all sources that tell it have come; None while one of them has seen nothing."""
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None
