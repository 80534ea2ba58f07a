"""The cut of a service's epoch as it is in the manifest, in the place where Spark's does: where each source stood.

What Spark's `offsets/N` is to a query is a text of the service's own here: the names of the sources, in the order of
the positions, and the event time to which each had come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tpc.errors import ConfigurationError, HistoryMismatchError
from tpc.history import History
from tpc.json import JSONObject, canonical, parse
from tpc.manifest import EpochInput, Manifest
from tpc.time_to_live import TimeToLive
from tpc.watermark import NO_EPOCH_TIME, NO_TIME, EpochTime, SourceClock, time_in

FORMAT = 2


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


TimesToLive = Mapping[str, TimeToLive]
"""By which time to live the entries of each state live, by its name."""


def epoch_input_of(
    cuts: Sequence[SourceCut], time: EpochTime, *, stateful: bool, lives: TimesToLive | None = None
) -> EpochInput:
    """The cut of an epoch. What is retired has no part in its positions: its topic may be gone.

    `time` is the event time with which the epoch is computed, and `lives` are the states' times to live: run again, it
    is computed with the same, whichever sources and times the program has by then, and whatever a clock says.
    """
    read = [cut for cut in cuts if not cut.is_retired]
    sources = [_noted(cut) for cut in read]
    retired = [{**_noted(cut), "end": cut.end} for cut in cuts if cut.is_retired]
    positions = {"sources": sources, "retired": retired}
    told: dict[str, object] = {"loop": FORMAT, "watermark_ms": time.watermark_ms, **positions}
    if time.sources or time.now_ms is not None:
        told["time"] = {"now_ms": time.now_ms, "sources": [asdict(each) for each in time.sources]}
    if lives:
        told["lives"] = {name: life._asdict() for name, life in lives.items()}
    text = canonical(told).decode()
    starts, ends = tuple(cut.start for cut in read), tuple(cut.end for cut in read)
    return EpochInput(text, starts, ends, stateful=stateful)


def _noted(cut: SourceCut) -> JSONObject:
    identities = {"identities": dict(cut.identities)} if cut.identities else {}
    return {"name": cut.name, **asdict(cut.clock), **identities}


def cuts_of(manifest: Manifest) -> list[SourceCut]:
    """The inverse. Raises `HistoryMismatchError` for an epoch that a Spark query has decided."""
    epoch_input, told = manifest.epoch_input, _told(manifest)
    read = [
        SourceCut(source["name"], start, end, _clock_of(source), source.get("identities", {}))
        for source, start, end in zip(told["sources"], epoch_input.start, epoch_input.end, strict=True)
    ]
    retired = [
        SourceCut(each["name"], each["end"], each["end"], _clock_of(each), each.get("identities", {}), is_retired=True)
        for each in told["retired"]
    ]
    return [*read, *retired]


def time_of(manifest: Manifest) -> EpochTime:
    """The event time with which an epoch was computed. Raises as `cuts_of` does.

    Of an epoch of an earlier version the watermark alone is known: with it all its events are handled.
    """
    return time_in(_told(manifest))


def times_to_live_of(manifest: Manifest) -> TimesToLive:
    """The times to live of the states of an epoch; a state that is not among them had none on record."""
    return {name: TimeToLive(**life) for name, life in _told(manifest).get("lives", {}).items()}


def watermark_of(manifest: Manifest) -> int | None:
    """The event time with which an epoch began. Raises as `cuts_of` does."""
    return time_of(manifest).watermark_ms


def _told(manifest: Manifest) -> JSONObject:
    if not manifest.epoch_input.offsets_file.startswith("{"):
        raise HistoryMismatchError(
            "the intent log is that of a query, not of a service",
            pipeline=str(manifest.pipeline),
            epoch=manifest.epoch,
            remedy="give the service a directory of its own.",
        )
    told: JSONObject = parse(manifest.epoch_input.offsets_file.encode())
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


def last_time(last: Manifest | None) -> EpochTime:
    """That of the last decided epoch, if there is one."""
    return NO_EPOCH_TIME if last is None else time_of(last)


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
