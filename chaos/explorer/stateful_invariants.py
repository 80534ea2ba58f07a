"""What must hold in every explored world of a state, and what is its end."""

from __future__ import annotations

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.stateful import StateWorld
from tpc.coordinator.service.state.rules import NO_EPOCH


def check(world: StateWorld) -> None:
    """What holds in every state. Raises `Violation`."""
    store, pending, end = world.store, world.pending, len(world.log)
    if store.applied >= end:
        raise Violation("beyond", f"the store has applied epoch {store.applied}, and {end - 1} is the last decided")
    if store.content != world.folded(store.applied + 1):
        raise Violation("content", f"at epoch {store.applied} the store holds {store.content}")
    last = {world.last_change}
    if pending is not None:
        last.add((world.folded(pending.epoch) or (NO_EPOCH,))[-1])
    if store.applied not in last and not world.went_back:
        raise Violation("position", f"the store is at epoch {store.applied}, not at one of {sorted(last)}")
    if pending is not None and not world.went_back and store.before(pending.epoch) != world.folded(pending.epoch):
        raise Violation("undo", f"epoch {pending.epoch} is not complete, and cannot be taken back")
    leader = world.leader
    if leader is not None and leader.does in ("begin", "prepare", "decide") and leader.content != world.folded(end):
        raise Violation("memory", f"epoch {end} runs on {leader.content} in memory, not on {world.folded(end)}")


def is_goal(world: StateWorld) -> bool:
    """All epochs are complete, or a store that has gone back has stopped the pipeline."""
    stopped = world.leader is not None and world.leader.does == "stop"
    return (stopped and world.went_back) or world.completed == world.epochs - 1
