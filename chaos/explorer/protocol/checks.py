"""What must hold in the world of the protocol: in every state, at its ends, and whenever a branch ends."""

from __future__ import annotations

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.protocol.branches import EPOCHS, PIPELINE, SINKS, BranchKey, handle_of
from tpc.chaos.explorer.protocol.world import ExploredWorld
from tpc.sink import GivenUp
from tpc.states import Phase


def given_up(world: ExploredWorld, epoch: int, sink: int) -> bool:
    """Whether an operator has given up this sink's branches of the epoch."""
    return world.history.resolution(epoch, SINKS[sink]) is not None


def names(world: ExploredWorld, sink: int, branch: BranchKey) -> bool:
    """Whether the log names this branch, as decided or repaired."""
    return branch.epoch < len(world.decided) and world.decided[branch.epoch][sink] == branch


def check_commit(world: ExploredWorld, sink: int, branch: BranchKey) -> None:
    """`branch` is about to become visible in `world`."""
    if not names(world, sink, branch):
        raise Violation("intent-first", f"{handle_of(sink, branch)} becomes visible, and the log does not name it")
    committed = world.sinks[sink].committed
    if any(other.epoch == branch.epoch for other in committed):
        raise Violation("exactly-once", f"{handle_of(sink, branch)} doubles epoch {branch.epoch}")
    missing = [e for e in range(branch.epoch) if not given_up(world, e, sink) and not _shows(world, sink, e)]
    if missing:
        raise Violation("exactly-once", f"sink {SINKS[sink]} shows epoch {branch.epoch} before epoch {missing[0]}")


def check_abort(world: ExploredWorld, sink: int, branch: BranchKey) -> None:
    """`branch`, which is prepared, is about to be aborted in `world`."""
    if names(world, sink, branch) and not given_up(world, branch.epoch, sink):
        raise Violation("durable", f"{handle_of(sink, branch)} is aborted although it is decided")


def _shows(world: ExploredWorld, sink: int, epoch: int) -> bool:
    return any(branch.epoch == epoch for branch in world.sinks[sink].committed)


def check_state(world: ExploredWorld) -> None:
    """What holds of every state: a complete epoch is visible in every sink, but for what the log says was undone."""
    last = world.history.last_complete
    for epoch in range(0 if last is None else last + 1):
        for sink in range(len(SINKS)):
            resolution = world.history.resolution(epoch, SINKS[sink])
            said = resolution is None or GivenUp.COMMITTED in resolution.ends
            if _shows(world, sink, epoch) is not said:
                shows = "shows it" if not said else "does not show it"
                raise Violation("atomic", f"epoch {epoch} is complete, and sink {SINKS[sink]} {shows}")


def is_goal(world: ExploredWorld) -> bool:
    """Whether nothing is left to do: every epoch complete, nothing prepared, a coordinator waiting for a batch."""
    return (
        world.history.last_complete == EPOCHS - 1
        and world.next_batch == EPOCHS
        and not any(sink.prepared for sink in world.sinks)
        and any(actor.state.phase is Phase.READY and not actor.todo for actor in world.actors)
    )


def check_end(world: ExploredWorld) -> None:
    """`world` has no way on: it must be a goal."""
    if not is_goal(world):
        left = [str(handle_of(i, b)) for i, sink in enumerate(world.sinks) for b in sorted(sink.prepared)]
        if left and world.history.last_complete == EPOCHS - 1:
            raise Violation("ends-swept", f"nothing can happen any more, and {left} stay prepared")
        raise Violation("live", f"{PIPELINE} cannot go on: the last complete epoch is {world.history.last_complete}")
