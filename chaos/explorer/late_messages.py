"""Explored: a message about a branch that reaches its sink when nobody waits for it any more."""

from __future__ import annotations

from dataclasses import replace

from tpc.chaos.explorer.invariants import check_abort, check_commit
from tpc.chaos.explorer.world import ExploredWorld, Stray


def arrive(world: ExploredWorld, sink: int, stray: Stray) -> ExploredWorld:
    """The world after a message about a branch has reached its sink."""
    participant = world.sinks[sink]
    if stray.kind == "prepare":
        return world.with_sink(sink, replace(participant, prepared=participant.prepared | {stray.branch}))
    if stray.branch not in participant.prepared:
        return world
    left = replace(participant, prepared=participant.prepared - {stray.branch})
    if stray.kind == "abort":
        check_abort(world, sink, stray.branch)
        return world.with_sink(sink, left)
    check_commit(world, sink, stray.branch)
    return world.with_sink(sink, replace(left, committed=left.committed | {stray.branch}))
