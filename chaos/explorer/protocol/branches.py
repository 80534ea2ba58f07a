"""What the explored pipeline writes: branches of three sinks in two epochs, with their handles and manifests."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from tpc.handles import Handle, PipelineId
from tpc.history import History
from tpc.manifest import Branch, EpochInput, Manifest, SinkPart
from tpc.sink import Committable

PIPELINE = PipelineId("explored")
SINKS = ("a", "b", "c")
EPOCHS = 2


class BranchKey(NamedTuple):
    """A branch of a sink: what is left of a handle when pipeline, sink and partition are known."""

    epoch: int
    generation: int
    attempt: int


@cache
def handle_of(sink: int, branch: BranchKey) -> Handle:
    """The handle of a branch."""
    return Handle(PIPELINE, branch.generation, SINKS[sink], branch.epoch, 0, branch.attempt)


@cache
def branch_of(handle: str) -> tuple[int, BranchKey]:
    """The inverse of `str(handle_of(...))`: index of the sink, and the branch."""
    parsed = Handle.parse(handle)
    return SINKS.index(parsed.sink), BranchKey(parsed.epoch, parsed.generation, parsed.attempt)


def committable(sink: int, branch: BranchKey) -> Committable:
    """The committable of a branch."""
    handle = handle_of(sink, branch)
    return Committable(handle, str(handle), rows=1, size_bytes=1)


def manifest_of(epoch: int, generation: int, history: History) -> Manifest:
    """What a pass without losers prepares: one branch per sink."""
    parts = {}
    for index, name in enumerate(SINKS):
        branch = Branch(committable(index, BranchKey(epoch, generation, 1)), "d")
        parts[name] = SinkPart("explored", f"id-{name}", 1, "d", (branch,), history.last_epoch_of(name))
    return Manifest(PIPELINE, generation, epoch, EpochInput(f"o{epoch}", (str(epoch),), (str(epoch + 1),)), parts)


def branch_named(manifest: Manifest | None, sink: int) -> BranchKey | None:
    """The branch of a sink that a manifest names."""
    if manifest is None:
        return None
    handle = manifest.sinks[SINKS[sink]].branches[0].committable.handle
    return BranchKey(handle.epoch, handle.generation, handle.attempt)


def decided_by(history: History) -> tuple[tuple[BranchKey | None, ...], ...]:
    """The branches that a history names, by epoch and sink."""
    return tuple(tuple(branch_named(m, sink) for sink in range(len(SINKS))) for m in history.manifests.values())
