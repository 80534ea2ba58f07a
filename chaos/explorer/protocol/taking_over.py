"""Explored: reading the log, putting records into it, and making oneself known to the sinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.protocol.acting import Acting, fresh_progress, set_progress
from tpc.chaos.explorer.protocol.branches import PIPELINE, SINKS, decided_by
from tpc.chaos.explorer.protocol.world import ExploredWorld
from tpc.chaos.explorer.search import Move
from tpc.consistency import check_bound_sinks, check_markers, check_pipeline, check_removed_sinks, knows_owner
from tpc.damaged_log_end import check_damage, check_void_is_proven
from tpc.effects import PutRecord
from tpc.errors import HistoryMismatchError, LogGoneError, TpcError, TransientError
from tpc.events import Failed, Opened, Owned, Stored, Superseded
from tpc.fold import advanced, fold
from tpc.history import DamagedSlot, History
from tpc.json import JSONObject
from tpc.records import Record, RecordKind
from tpc.sink import Owner

GONE = Failed(LogGoneError("explored"))
"""What a coordinator hears of a log that is not the one it knows."""
_UNKNOWN = fresh_progress("an answer was lost")
"""The progress of a put after which nobody knows whether the record is in the log."""
IDENTITIES = {name: f"id-{name}" for name in SINKS}


def read(world: ExploredWorld) -> History:
    """What a reader of the log learns."""
    whole = [slot for slot in world.log if isinstance(slot, Record)]
    last = whole[-1].slot if whole else 0
    return fold(whole, [slot for slot in world.log if isinstance(slot, DamagedSlot) and slot.slot > last])


def opened(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """The log was read; do the sinks agree with it? When it has gone on meanwhile it is read again."""
    actor, world = acting.actor, acting.world
    markers = {name: world.sinks[i].marker(i) for i, name in enumerate(SINKS)}
    owners = {name: world.sinks[i].owner for i, name in enumerate(SINKS)}
    try:
        check_pipeline(actor.history, PIPELINE, "explored")
        check_bound_sinks(actor.history, IDENTITIES)
        check_removed_sinks(actor.history, IDENTITIES)
        if actor.history.pipeline is not None:
            check_damage(actor.history, markers, owners, "explored")
            check_markers(actor.history, markers)
    except HistoryMismatchError as error:
        if any(sink.unmarked for sink in world.sinks):
            left = world.with_actor(acting.index, None).with_markers_back()
            yield Move(f"{acting.name}: stops, and an operator puts the markers back", left)
            return
        if actor.history.next_slot - 1 == len(world.log):
            raise Violation("legal", f"a start is refused: {error}") from error
        again = replace(actor, history=read(world))
        yield Move(f"{acting.name}: reads the log again", world.with_actor(acting.index, again))
        return
    except TpcError as error:
        raise Violation("legal", f"a start is refused: {error}") from error
    try:
        check_void_is_proven(actor.history, markers, owners, (), "explored")
    except HistoryMismatchError:
        # A record that was torn has decided nothing here, so the operator's decision is always the right one.
        yield acting.says("is refused, an operator voids the damaged end, and it opens the log", Opened(actor.history))
        return
    yield acting.says("opens the log", Opened(actor.history))


def record(history: History, kind: RecordKind, body: JSONObject, nonce: str) -> Record:
    """The record that follows `history`."""
    if kind is RecordKind.GENERATION:
        body = {**body, "sinks": IDENTITIES, "query_id": "q", **history.carried(SINKS, keep_epochs=100)}
    elif kind is RecordKind.COMPLETE:
        body = {**body, "floor": history.floor}
    return Record(history.next_slot, kind, nonce, body)


def land(world: ExploredWorld, wanted: Record, *, torn: bool = False) -> tuple[ExploredWorld, bool]:
    """Put if absent: the world after it, and whether the slot holds `wanted` now."""
    if wanted.slot <= len(world.log):
        return world, world.log[wanted.slot - 1] == wanted
    assert wanted.slot == len(world.log) + 1, "a put into a slot beyond the end"
    if any(branch["digest"] != "d" for branch in wanted.body.get("replacements", {}).values()):
        raise Violation("exactly-once", "a repair puts other rows in the place of the lost ones")
    if torn:
        return replace(world, log=(*world.log, DamagedSlot(wanted.slot, f"torn {wanted.nonce}"))), True
    try:
        history = advanced(world.history, wanted)
    except TpcError as error:
        raise Violation("fenced", f"a record is put that contradicts the log: {error}") from error
    return replace(world, log=(*world.log, wanted), history=history, decided=decided_by(history)), True


def is_overtaken(acting: Acting) -> bool:
    """Whether the slot of the coming put holds somebody else's record, which it will for ever."""
    log, slot = acting.world.log, acting.actor.history.next_slot
    if slot > len(log):
        return False
    held = log[slot - 1]
    return isinstance(held, Record) and held.nonce != str(acting.actor.number)


def put(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """One record, and everything that may happen to it."""
    actor, world = acting.actor, acting.world
    effect = acting.effect
    assert isinstance(effect, PutRecord)
    wanted = record(actor.history, effect.kind, effect.body, str(actor.number))
    what = f"slot {wanted.slot} ({effect.kind.value})"
    if world.is_log_away:
        yield acting.says(f"cannot put {what}, its log is gone", GONE)
        return
    landed, stored = land(world, wanted)
    if stored and wanted.slot == len(landed.log):
        yield acting.says(f"puts {what}", Stored(), world=landed, history=advanced(actor.history, wanted))
    else:
        taken = not stored and not actor.progress and isinstance(world.log[wanted.slot - 1], Record)
        yield acting.says(f"finds {what} taken", Superseded("explored", taken), world=landed)
    if world.log_losses and world.log:
        away = replace(landed, is_log_away=True, log_losses=world.log_losses - 1)
        yield acting.says(f"puts {what}, and its log is gone when it looks after it", GONE, world=away)
    if not world.faults:
        return
    yield acting.crash("before")
    yield acting.crash("after", world=landed)
    refused = Failed(TransientError("the log takes nothing"))
    yield acting.says(f"cannot put {what}", refused, fault=True)
    if landed is not world:
        torn, _ = land(world, wanted, torn=True)
        yield acting.crash("after", world=torn)
        yield acting.says(f"puts {what} and is told that it failed", refused, world=landed, fault=True)
        yield acting.goes_on(f"puts {what}, the answer is lost", landed, _UNKNOWN, fault=True)
        late = replace(world, stray_puts=(*world.stray_puts, wanted))
        yield acting.crash("before", world=late)
        if wanted not in world.stray_puts:
            yield acting.goes_on(f"puts {what}, nothing arrives yet", late, _UNKNOWN, fault=True)


def take_ownership(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """Every sink is told the current leader, in any order."""
    actor, world = acting.actor, acting.world
    progress = actor.progress or fresh_progress()
    owner = Owner(actor.state.generation, actor.history.owners[actor.state.generation], 0.0)
    left = [sink for sink in range(len(SINKS)) if progress[1 + sink] is None]
    if not left:
        yield acting.says("owns every sink", Owned())
    elif len(world.actors) == 1 and len(world.log) == actor.history.last_slot:
        # Nobody else writes owner entries; a rival that is started later reads the log as it is now.
        yield from _own_alone(acting, owner)
        return
    for sink in left:
        seen = world.sinks[sink].owner
        if not knows_owner(actor.history, SINKS[sink], seen):
            if len(world.log) == actor.history.last_slot:
                raise Violation("legal", f"sink {SINKS[sink]} has an owner that the log does not know: {seen}")
            yield acting.says(f"finds another owner in sink {SINKS[sink]}", Superseded("explored"))
            continue
        owned = world.with_sink(sink, replace(world.sinks[sink], owner=owner))
        yield acting.goes_on(f"owns sink {SINKS[sink]}", owned, set_progress(progress, sink, True))
        if world.faults:
            yield acting.crash("after", world=owned)
    if world.faults:
        yield acting.crash("before")
        yield acting.says("a sink does not answer", Failed(TransientError("explored")), fault=True)


def _own_alone(acting: Acting, owner: Owner) -> Iterator[Move[ExploredWorld]]:
    """All sinks at once, or a death after some of them."""
    world = acting.world
    for sink in range(len(SINKS)):
        if not knows_owner(acting.actor.history, SINKS[sink], world.sinks[sink].owner):
            raise Violation("legal", f"sink {SINKS[sink]} has an owner that the log does not know")
        world = world.with_sink(sink, replace(world.sinks[sink], owner=owner))
        if world.faults:
            yield acting.crash("after", world=world)
    yield acting.says("owns every sink", Owned(), world=world)
    if world.faults:
        yield acting.crash("before")
        yield acting.says("a sink does not answer", Failed(TransientError("explored")), fault=True)
