"""What can happen next in a world: every move of every coordinator, every late message, every start and crash.

A move that is a fault is counted; the number of faults is bounded. Effects are carried out in steps as fine as the
production shell's: a put, one sink's commit, the listing before a sweep and each abort after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.protocol import finishing, passes, sweeps, taking_over
from tpc.chaos.explorer.protocol.acting import Acting
from tpc.chaos.explorer.protocol.branches import EPOCHS, PIPELINE, SINKS, handle_of
from tpc.chaos.explorer.protocol.checks import check_abort, check_commit
from tpc.chaos.explorer.protocol.world import Actor, ExploredWorld, Stray
from tpc.chaos.explorer.search import Coverage, Move
from tpc.effects import (
    AbortEpoch,
    Commit,
    PutRecord,
    Release,
    ReplayEpoch,
    Return,
    Stop,
    Sweep,
    TakeOwnership,
    Verify,
    Warn,
    WriteEpoch,
)
from tpc.errors import ParkedError
from tpc.events import BatchStarted, RenewalDue, SweepDue
from tpc.history import Action, Resolution
from tpc.records import Record, RecordKind
from tpc.states import MachineState, Phase


def moves(world: ExploredWorld, coverage: Coverage) -> Iterator[Move[ExploredWorld]]:
    """Everything that can happen next.

    Where a coordinator's next step touches nothing that others can see, only its own moves are taken: whatever others
    do can as well come after it (a partial order reduction).
    """
    acting = [Acting(world, index, coverage) for index in range(len(world.actors))]
    silent = next((one for one in acting if _is_silent(one)), None)
    for one in acting if silent is None else [silent]:
        for move in _of_actor(one):
            yield Move(move.label, _aged(world, move.world, silent is not None), move.is_fault)
    if silent is None:
        for happens in (_late_messages, _starts, _losses, _log_losses):
            for move in happens(world):
                yield Move(move.label, _aged(world, move.world, was_silent=False), move.is_fault)


def _aged(before: ExploredWorld, after: ExploredWorld, was_silent: bool) -> ExploredWorld:
    """`after` without what cannot matter any more, and with the mark whether a rival may as well be started here.

    A rival that is started between two changes of what it reads could have been started right after the first one,
    and stood still; so it is started there only.
    """
    changed = (len(before.log), before.next_batch) != (len(after.log), after.next_batch)
    is_new = after.rivals > 0 and (changed or (before.is_new_to_readers and was_silent))
    after = after.settled()
    return after if after.is_new_to_readers is is_new else replace(after, is_new_to_readers=is_new)


def _is_silent(acting: Acting) -> bool:
    """Whether the next step of a coordinator changes nothing but the coordinator itself, whatever comes of it."""
    actor = acting.actor
    if not actor.todo:
        return False
    kind, progress = type(actor.todo[0]), actor.progress
    if kind in (Verify, Release, Warn):
        return True
    if kind is PutRecord:
        return taking_over.is_overtaken(acting)
    if kind is TakeOwnership:
        return bool(progress) and None not in progress[1:]
    if kind in (Sweep, AbortEpoch) and progress:
        return _is_fenced(acting) if progress[0] == "listed" else not any(progress[1:])
    return kind is Commit and finishing.is_silent(acting)


def _is_fenced(acting: Acting) -> bool:
    return len(acting.world.log) > acting.actor.history.last_slot


# A coordinator ---------------------------------------------------------------------------------------------------


def _of_actor(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    actor = acting.actor
    if actor.todo:
        yield from _EFFECTS[type(actor.todo[0])](acting)
    elif actor.state.phase is Phase.NEW:
        yield from taking_over.opened(acting)
    else:
        assert actor.state.phase is Phase.READY, actor.state.phase
        yield from _ready(acting)


def _ready(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    actor, world = acting.actor, acting.world
    if actor.next_batch < EPOCHS:
        event = BatchStarted(actor.next_batch, actor.history.manifests.get(actor.next_batch))
        yield acting.says(f"Spark begins batch {actor.next_batch}", event)
    if sweeps.is_due(acting):
        yield acting.says("the time for a sweep has come", SweepDue(), sweeps_later=True, repeated_tasks=False)
    if world.renewals:
        yield acting.says("the term is old", RenewalDue(), world=replace(world, renewals=world.renewals - 1))
    if world.faults:
        yield acting.crash("while it waits")


def _local(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """Effects that touch nothing outside."""
    yield acting.done(type(acting.effect).__name__.lower())
    if acting.world.faults:
        yield acting.crash("before")


def _return(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """The batch function returns; Spark commits the batch, or dies before that."""
    epoch = acting.effect.epoch
    world = replace(acting.world, next_batch=max(acting.world.next_batch, epoch + 1))
    yield acting.done(f"Spark commits batch {epoch}", world=world, next_batch=epoch + 1)
    if acting.world.faults:
        yield acting.crash("before")
        yield acting.crash("after", world=world)


def _stop(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    error = acting.effect.error
    world = acting.world
    if isinstance(error, ParkedError):
        assert error.epoch is not None
        assert error.sink is not None
        world = replace(world, parked=(error.epoch, error.sink))
    acting.coverage.crashes.add((Stop.__name__, "before"))
    yield Move(f"{acting.name} stops: {type(error).__name__}", world.with_actor(acting.index, None))


_EFFECTS: Mapping[type[Any], Callable[[Acting], Iterator[Move[ExploredWorld]]]] = {
    PutRecord: taking_over.put,
    TakeOwnership: taking_over.take_ownership,
    Commit: finishing.commit,
    Sweep: sweeps.sweep,
    AbortEpoch: sweeps.sweep,
    WriteEpoch: passes.write,
    ReplayEpoch: passes.replay,
    Verify: passes.verify,
    Release: _local,
    Warn: _local,
    Return: _return,
    Stop: _stop,
}


# The world around -------------------------------------------------------------------------------------------------


def _late_messages(world: ExploredWorld) -> Iterator[Move[ExploredWorld]]:
    for sink, strays in enumerate(world.strays):
        for stray in sorted(strays):
            left = replace(world, strays=(*world.strays[:sink], strays - {stray}, *world.strays[sink + 1 :]))
            yield Move(f"a late {stray.kind} of {handle_of(sink, stray.branch)} arrives", _arrived(left, sink, stray))
    # A late put into a log that is away would be seen by nobody before it is back.
    for record in () if world.is_log_away else world.stray_puts:
        left = replace(world, stray_puts=tuple(other for other in world.stray_puts if other is not record))
        landed, _ = taking_over.land(left, record)
        yield Move(f"a late put of slot {record.slot} ({record.kind.value}) arrives", landed)


def _arrived(world: ExploredWorld, sink: int, stray: Stray) -> ExploredWorld:
    """The world after a message about a branch has reached its sink, when its sender no longer waits for it."""
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


def _losses(world: ExploredWorld) -> Iterator[Move[ExploredWorld]]:
    """A clean-up job takes the markers of a sink."""
    for sink, participant in enumerate(world.sinks):
        if world.losses and participant.committed:
            lost = world.with_sink(sink, replace(participant, unmarked=participant.committed))
            what = f"sink {SINKS[sink]} loses its markers"
            yield Move(what, replace(lost, losses=world.losses - 1), is_fault=True)


def _log_losses(world: ExploredWorld) -> Iterator[Move[ExploredWorld]]:
    """The log is moved away under a coordinator; an operator brings it back, whole."""
    if world.is_log_away:
        yield Move("an operator brings the whole log back", replace(world, is_log_away=False))
    elif world.log_losses and world.log and world.actors:
        lost = replace(world, is_log_away=True, log_losses=world.log_losses - 1)
        yield Move("the log loses what the coordinator knows as its newest record", lost, is_fault=True)


def _starts(world: ExploredWorld) -> Iterator[Move[ExploredWorld]]:
    if world.is_log_away:
        return  # what such a start meets, or can no longer know, is for the simulator
    leads = any(
        actor.state.phase in (Phase.NEW, Phase.CLAIMING) or actor.state.generation == world.history.generation
        for actor in world.actors
    )
    if not leads:
        yield Move("a coordinator is started", started(world))
        yield from _resolutions(world)
    elif world.rivals and world.is_new_to_readers and len(world.actors) == 1:
        yield Move("a rival is started", started(replace(world, rivals=world.rivals - 1)), is_fault=True)


def started(world: ExploredWorld) -> ExploredWorld:
    """A new coordinator, which has read the log."""
    if world.started > 8:
        raise Violation("live", "coordinators are started for ever")
    number = world.started + 1
    actor = Actor(number, MachineState(pipeline=PIPELINE), taking_over.read(world), world.next_batch)
    return replace(world, actors=(*world.actors, actor), started=number)


def _resolutions(world: ExploredWorld) -> Iterator[Move[ExploredWorld]]:
    """An operator gives up what is parked; or, while `give_ups` are left, any sink of the pending epoch."""
    pending = world.history.pending
    if pending is None or not isinstance(world.log[-1], Record):
        return
    if world.parked is not None and world.parked[0] == pending.epoch:
        resolved = replace(_resolved(world, *world.parked), parked=None)
        yield Move("an operator accepts the loss", resolved)
    if world.give_ups:
        for sink in SINKS:
            if world.history.resolution(pending.epoch, sink) is None:
                resolved = replace(_resolved(world, pending.epoch, sink), give_ups=world.give_ups - 1)
                yield Move(f"an operator gives up sink {sink}", resolved, is_fault=True)


def _resolved(world: ExploredWorld, epoch: int, sink: str) -> ExploredWorld:
    resolution = Resolution(epoch, sink, Action.ACCEPT_LOSS, "explored", "operator")
    record = taking_over.record(taking_over.read(world), RecordKind.RESOLUTION, resolution.to_json(), "operator")
    return taking_over.land(world, record)[0]
