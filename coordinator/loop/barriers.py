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
from tpc.json import JSONObject, canonical, parse
from tpc.manifest import Barrier, Manifest
from tpc.source import Part

FORMAT = 2


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

    def at_least(self, time_ms: int | None) -> SourceClock:
        """The same, and no earlier: of a source that is read again after event time has gone on without it."""
        return replace(self, time_ms=max((at for at in (self.time_ms, time_ms) if at is not None), default=None))


NO_TIME = SourceClock()


@dataclass(frozen=True)
class SourceCut:
    """One source's part of a cut; `clock` is the event time to which it has come at its end."""

    name: str
    start: str
    end: str
    clock: SourceClock = NO_TIME
    identities: Mapping[str, str] = field(default_factory=dict)
    """Which topics of these names its positions count in (`tpc.identities`); empty where nobody tells."""
    is_retired: bool = False
    """Nothing of it is read any more. It is kept in mind where it stood, for whoever reads it again one day."""

    def retired(self) -> SourceCut:
        """The same source in the epochs after the last one that has read it."""
        return replace(self, start=self.end, is_retired=True)


def barrier_of(cuts: Sequence[SourceCut], watermark_ms: int | None, *, stateful: bool) -> Barrier:
    """The cut of an epoch. What is retired has no part in its positions: its topic may be gone.

    `watermark_ms` is the event time with which the epoch began: run again, it begins with the same, whichever sources
    and times the program has by then.
    """
    read = [cut for cut in cuts if not cut.is_retired]
    sources = [_noted(cut) for cut in read]
    retired = [{**_noted(cut), "end": cut.end} for cut in cuts if cut.is_retired]
    told = {"loop": FORMAT, "watermark_ms": watermark_ms, "sources": sources, "retired": retired}
    text = canonical(told).decode()
    starts, ends = tuple(cut.start for cut in read), tuple(cut.end for cut in read)
    return Barrier(text, starts, ends, stateful=stateful)


def _noted(cut: SourceCut) -> JSONObject:
    identities = {"identities": dict(cut.identities)} if cut.identities else {}
    return {"name": cut.name, **asdict(cut.clock), **identities}


def cuts_of(manifest: Manifest) -> list[SourceCut]:
    """The inverse. Raises `HistoryMismatchError` for an epoch that a Spark query has decided."""
    barrier, told = manifest.barrier, _told(manifest)
    read = [
        SourceCut(source["name"], start, end, _clock_of(source), source.get("identities", {}))
        for source, start, end in zip(told["sources"], barrier.start, barrier.end, strict=True)
    ]
    retired = [
        SourceCut(each["name"], each["end"], each["end"], _clock_of(each), each.get("identities", {}), is_retired=True)
        for each in told["retired"]
    ]
    return [*read, *retired]


def watermark_of(manifest: Manifest) -> int | None:
    """The event time with which an epoch began. Raises as `cuts_of` does."""
    found: int | None = _told(manifest)["watermark_ms"]
    return found


def _told(manifest: Manifest) -> JSONObject:
    if not manifest.barrier.offsets_file.startswith("{"):
        raise HistoryMismatchError(
            "this directory is the checkpoint of a Spark query, not of a loop",
            pipeline=str(manifest.pipeline),
            epoch=manifest.epoch,
            remedy="give the service a directory of its own.",
        )
    told: JSONObject = parse(manifest.barrier.offsets_file.encode())
    if told["loop"] != FORMAT:
        raise HistoryMismatchError(
            f"the cut of this epoch is written in format {told['loop']}, and this is format {FORMAT}",
            pipeline=str(manifest.pipeline),
            epoch=manifest.epoch,
            remedy="start the service with the version of tpc that has written it.",
        )
    return told


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
            remedy="read from it under the same name (name=...), also where a topic was added to it. If nothing of it "
            f"is read any more, under no other name either, say service.retire({gone[0]!r}).",
        )


def watermark_ms(times: Sequence[int | None]) -> int | None:
    """Up to which event time all sources that tell it have come; None while one of them has seen nothing."""
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None
