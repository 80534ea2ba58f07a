"""Explored: the sweep of what nobody decided, in the production shell's steps: list, look at the log, abort."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tpc.abort_rules import AbortRules, AbortScope
from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.protocol.acting import Acting, fresh_progress, set_progress
from tpc.chaos.explorer.protocol.branches import PIPELINE, SINKS, BranchKey, branch_of, handle_of
from tpc.chaos.explorer.protocol.checks import check_abort
from tpc.chaos.explorer.protocol.taking_over import GONE
from tpc.chaos.explorer.protocol.world import ExploredWorld, Stray
from tpc.chaos.explorer.search import Move
from tpc.consistency import check_markers_before_sweep
from tpc.effects import AbortEpoch, Sweep
from tpc.errors import FencedError, HistoryMismatchError, TransientError
from tpc.events import Aborted, Event, Failed, Superseded, Swept


def is_due(acting: Acting) -> bool:
    """Whether a sweep would find something. The engine asks every 30 s, and after a pass with repeated tasks."""
    rules = AbortRules(PIPELINE, acting.actor.state.generation, acting.actor.state.last_complete)
    try:
        return any(rules.to_abort(sink.in_doubt(i)) for i, sink in enumerate(acting.world.sinks))
    except FencedError:
        return True


def _abort_rules(acting: Acting) -> AbortRules:
    effect, state = acting.effect, acting.actor.state
    if isinstance(effect, AbortEpoch):
        scope = AbortScope.OWN_EPOCH if effect.fenced else AbortScope.ALL
        return AbortRules(PIPELINE, state.generation, state.last_complete, effect.spare, effect.epoch, scope)
    assert isinstance(effect, Sweep)
    return AbortRules(PIPELINE, state.generation, state.last_complete, effect.manifest)


def sweep(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """A `Sweep` or an `AbortEpoch`."""
    world, progress = acting.world, acting.actor.progress
    if not progress:
        yield _list(acting)
    elif progress[0] == "listed":
        yield _look(acting)
    else:
        left = [sink for sink in range(len(SINKS)) if progress[1 + sink]]
        if not left:
            yield _end(acting, "has aborted what nobody decided")
        for sink in left:
            after = abort_all(world, sink, progress[1 + sink])
            yield acting.goes_on(f"aborts in sink {SINKS[sink]}", after, set_progress(progress, sink, None))
    if world.faults:
        when = "after" if progress and progress[0] == "leading" else "before"
        yield acting.crash(when, under_way=_under_way(acting))
        later = acting.actor.sweeps_later or isinstance(acting.effect, AbortEpoch)
        event = _over(acting) if later else Failed(TransientError("a sink does not answer"))
        yield acting.says("a sink does not answer", event, fault=True, sweeps_later=False)


def _list(acting: Acting) -> Move[ExploredWorld]:
    try:
        to_abort = [_abort_rules(acting).to_abort(sink.in_doubt(i)) for i, sink in enumerate(acting.world.sinks)]
    except FencedError as error:
        event = Superseded("explored") if isinstance(acting.effect, AbortEpoch) else Failed(error)
        return acting.says("finds a branch of a later term", event, sweeps_later=False)
    if not any(to_abort):
        return _end(acting, "finds nothing to abort")
    branches = tuple(tuple(branch_of(doubt.resource)[1] for doubt in of_sink) for of_sink in to_abort)
    knows_more = isinstance(acting.effect, AbortEpoch) and acting.effect.fenced
    return acting.goes_on("lists what is in doubt", acting.world, ("leading" if knows_more else "listed", *branches))


def _look(acting: Acting) -> Move[ExploredWorld]:
    if acting.world.is_log_away:
        event = _over(acting) if isinstance(acting.effect, AbortEpoch) else GONE
        return acting.says("finds that its log is gone", event, sweeps_later=False)
    if len(acting.world.log) > acting.actor.history.last_slot:
        fenced = isinstance(acting.effect, AbortEpoch)
        seen: Event = Superseded("explored") if fenced else Failed(FencedError("explored"))
        return acting.says("finds that the log has gone on", seen, sweeps_later=False)
    progress = ("leading", *acting.actor.progress[1:])
    markers = {SINKS[i]: sink.marker(i) for i, sink in enumerate(acting.world.sinks) if progress[1 + i]}
    try:
        check_markers_before_sweep(acting.actor.history, markers)
    except HistoryMismatchError as error:
        event = _over(acting) if isinstance(acting.effect, AbortEpoch) else Failed(error)
        label = "finds that a sink has lost its markers, and an operator puts them back"
        return acting.says(label, event, world=acting.world.with_markers_back(), sweeps_later=False)
    return acting.goes_on("sees that it still leads", acting.world, progress)


def _over(acting: Acting) -> Event:
    return Aborted() if isinstance(acting.effect, AbortEpoch) else Swept()


def _end(acting: Acting, label: str) -> Move[ExploredWorld]:
    return acting.says(label, _over(acting), sweeps_later=False)


def abort_all(world: ExploredWorld, sink: int, branches: tuple[BranchKey, ...]) -> ExploredWorld:
    """The world after a sink has aborted these branches, where they are still prepared."""
    participant = world.sinks[sink]
    for branch in branches:
        if branch in participant.prepared:
            check_abort(world, sink, branch)
        elif branch in participant.unmarked:
            raise Violation("durable", f"{handle_of(sink, branch)} is committed, and a sweep takes it")
    return world.with_sink(sink, replace(participant, prepared=participant.prepared - frozenset(branches)))


def _under_way(acting: Acting) -> list[tuple[int, Stray]]:
    """The aborts that may have been sent when the process dies."""
    progress = acting.actor.progress or fresh_progress()
    if progress[0] != "leading":
        return []
    return [(i, Stray("abort", branch)) for i in range(len(SINKS)) for branch in progress[1 + i] or ()]
