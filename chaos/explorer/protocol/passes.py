"""Explored: the pass of an epoch, its replay, and the last look before the intent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tpc.chaos.explorer.protocol.acting import Acting
from tpc.chaos.explorer.protocol.branches import SINKS, BranchKey, branch_of, committable, manifest_of
from tpc.chaos.explorer.protocol.world import ExploredWorld, Stray
from tpc.chaos.explorer.search import Move
from tpc.errors import TransientError
from tpc.events import Failed, Prepared, Replayed, Superseded, Verified
from tpc.manifest import Branch

_LOSER = 2
"""The attempt number of a branch whose task was repeated."""


def _with_prepared(world: ExploredWorld, branches: Iterable[tuple[int, BranchKey]]) -> ExploredWorld:
    for sink, branch in branches:
        participant = world.sinks[sink]
        world = world.with_sink(sink, replace(participant, prepared=participant.prepared | {branch}))
    return world


def write(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """All tasks prepare; or one is repeated; or the pass fails or the driver dies with some branches prepared."""
    actor, world, effect = acting.actor, acting.world, acting.effect
    branches = [(sink, BranchKey(effect.epoch, effect.generation, 1)) for sink in range(len(SINKS))]
    prepared = Prepared(manifest_of(effect.epoch, effect.generation, actor.history))
    whole = _with_prepared(world, branches)
    yield acting.says(f"the pass of epoch {effect.epoch} is prepared", prepared, world=whole)
    yield from _ended_by_the_watch(acting, whole)
    if world.faults:
        repeated = _with_prepared(whole, [(0, BranchKey(effect.epoch, effect.generation, _LOSER))])
        label = f"the pass of epoch {effect.epoch} is prepared, a task was repeated"
        yield acting.says(label, prepared, world=repeated, fault=True, repeated_tasks=True)
        yield from _ends_early(acting, branches)


def _ended_by_the_watch(acting: Acting, whole: ExploredWorld) -> Iterator[Move[ExploredWorld]]:
    """Another leads: the tasks are ended, as late as can be."""
    if len(acting.world.log) > acting.actor.history.last_slot:
        yield acting.says("sees that another leads, and ends its pass", Superseded("explored"), world=whole)


def _ends_early(acting: Acting, branches: list[tuple[int, BranchKey]]) -> Iterator[Move[ExploredWorld]]:
    """A failure or a death with the first branches prepared; after a death one more may be prepared late."""
    for count in range(len(branches) + 1):
        some = _with_prepared(acting.world, branches[:count])
        failed = Failed(TransientError("a task failed"))
        yield acting.says(f"the pass fails with {count} branches prepared", failed, world=some, fault=True)
        yield acting.crash("after" if count == len(branches) else "before", world=some)
        for sink, branch in branches[count : count + 1]:
            yield acting.crash("before", world=some.with_stray(sink, Stray("prepare", branch)))


def verify(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """The branches are seen alive, or not."""
    yield acting.says("every branch is alive", Verified())
    if acting.world.faults:
        yield acting.says("a branch may expire too soon", Failed(TransientError("explored")), fault=True)
        yield acting.crash("before")
        yield acting.crash("after")


def replay(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """The batch runs again for its state; where a branch was lost, another is written."""
    world, effect = acting.world, acting.effect
    written: list[tuple[int, BranchKey]] = []
    replacements = {}
    for handle in sorted(effect.lost):
        sink, old = branch_of(handle)
        new = BranchKey(old.epoch, effect.generation, 1)
        written.append((sink, new))
        replacements[handle] = Branch(committable(sink, new), "d")
    same = Replayed(dict.fromkeys(SINKS, "d"), replacements)
    whole = _with_prepared(world, written)
    yield acting.says(f"batch {effect.epoch} is replayed", same, world=whole)
    yield from _ended_by_the_watch(acting, whole)
    if world.faults:
        yield from _ends_early(acting, written)
        others = {old: replace(branch, digest="other rows") for old, branch in replacements.items()}
        other = Replayed(dict.fromkeys(SINKS, "other rows"), others)
        yield acting.says(f"batch {effect.epoch} is replayed with other rows", other, world=whole, fault=True)
