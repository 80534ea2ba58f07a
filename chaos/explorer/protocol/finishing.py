"""Explored: the commits of a decided epoch, sink by sink in any order, and everything a sink may answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tpc.chaos.explorer.protocol.acting import Acting, fresh_progress, set_progress
from tpc.chaos.explorer.protocol.branches import SINKS, BranchKey, branch_of, handle_of
from tpc.chaos.explorer.protocol.checks import check_abort, check_commit
from tpc.chaos.explorer.protocol.taking_over import GONE
from tpc.chaos.explorer.protocol.world import ExploredWorld, Stray
from tpc.chaos.explorer.search import Move
from tpc.errors import UnknownOutcomeError
from tpc.events import Answered, Failed, Superseded
from tpc.sink import GivenUp, Outcome, Verdict


def commit(acting: Acting) -> Iterator[Move[ExploredWorld]]:
    """One sink after the other answers; then the machine hears all answers."""
    actor, world, effect = acting.actor, acting.world, acting.effect
    progress = actor.progress
    if not progress and effect.attempt and world.is_log_away:
        yield acting.says("sees that its log is gone", GONE)
        return
    if not progress and effect.attempt and len(world.log) > actor.history.last_slot:
        # It looked before the rival came, or it looks now.
        yield acting.says("sees that another leads", Superseded("explored"))
    if not progress:
        progress = fresh_progress()
        if effect.given_up:
            after, progress = _ended(world, effect.given_up, progress)
            yield acting.goes_on("ends what was given up", after, progress)
            if world.faults:
                yield acting.crash("before", under_way=_under_way(acting))
                yield acting.crash("after", world=after, under_way=_under_way(acting))
            return
    wanted = _wanted(acting)
    open_sinks = _open_sinks(acting, wanted)
    if not open_sinks:
        answers = {str(handle_of(sink, wanted[sink])): Outcome(progress[1 + sink]) for sink in wanted}
        given_up = {h: progress[1 + sink] for h in effect.given_up for sink, _ in [branch_of(h)]}
        yield acting.says("has heard every sink", Answered(answers, given_up))
    for sink in open_sinks:
        yield from _one(acting, progress, sink, wanted[sink])
    if world.faults:
        when = "before" if len(open_sinks) == len(wanted) else "after"
        yield acting.crash(when, under_way=_under_way(acting))
        gave_up = Failed(UnknownOutcomeError("explored"))
        yield acting.says("gives up waiting", gave_up, world=_with_strays(acting, world), fault=True)


def _wanted(acting: Acting) -> dict[int, BranchKey]:
    """What is to be committed, by its sink; always in one order, so that every run finds as many states."""
    return dict(sorted(map(branch_of, acting.effect.handles)))


def _open_sinks(acting: Acting, wanted: dict[int, BranchKey]) -> list[int]:
    """The sinks that are asked next: one that has committed already alone, since its answer will not change."""
    progress = acting.actor.progress or fresh_progress()
    left = [sink for sink in wanted if progress[1 + sink] is None]
    already = [sink for sink in left if wanted[sink] in acting.world.sinks[sink].committed]
    return already[:1] or left


def is_silent(acting: Acting) -> bool:
    """Whether the next answer changes nothing that others can see."""
    if not acting.actor.progress:
        return False
    wanted = _wanted(acting)
    asked = _open_sinks(acting, wanted)
    return all(wanted[sink] in acting.world.sinks[sink].committed for sink in asked)


def _one(acting: Acting, progress: tuple[object, ...], sink: int, branch: BranchKey) -> Iterator[Move[ExploredWorld]]:
    world, name = acting.world, SINKS[sink]

    def answer(verdict: Verdict, label: str, after: ExploredWorld, *, fault: bool = True) -> Move[ExploredWorld]:
        return acting.goes_on(f"sink {name} {label}", after, set_progress(progress, sink, verdict), fault=fault)

    participant = world.sinks[sink]
    committed = world
    if branch in participant.committed:
        yield answer(Verdict.ALREADY, "has committed already", world, fault=False)
    elif branch in participant.prepared:
        check_commit(world, sink, branch)
        left = replace(participant, prepared=participant.prepared - {branch})
        committed = world.with_sink(sink, replace(left, committed=left.committed | {branch}))
        yield answer(Verdict.COMMITTED, "commits", committed, fault=False)
        if world.faults:
            expired = world.with_sink(sink, replace(left, expired=left.expired | {branch}))
            yield answer(Verdict.LOST, "has lost its branch", expired)
            yield answer(Verdict.REFUSED, "refuses for good", world)
    else:
        yield answer(Verdict.LOST, "has lost its branch", world, fault=False)
    if world.faults:
        yield answer(Verdict.UNKNOWN, "commits, its answer is lost", committed)
        yield answer(Verdict.UNKNOWN, "gets nothing yet", world.with_stray(sink, Stray("commit", branch)))


def _ended(
    world: ExploredWorld, handles: frozenset[str], progress: tuple[object, ...]
) -> tuple[ExploredWorld, tuple[object, ...]]:
    """The world and the progress after what was given up has been ended, but for what is committed."""
    for sink, branch in sorted(map(branch_of, handles)):
        participant = world.sinks[sink]
        if branch in participant.prepared:
            check_abort(world, sink, branch)
            world = world.with_sink(sink, replace(participant, prepared=participant.prepared - {branch}))
        end = GivenUp.COMMITTED if branch in participant.committed else GivenUp.UNDONE
        progress = set_progress(progress, sink, end)
    return world, progress


def _under_way(acting: Acting) -> list[tuple[int, Stray]]:
    """The commits that no sink has answered."""
    progress = acting.actor.progress or fresh_progress()
    wanted = map(branch_of, acting.effect.handles)
    return [(sink, Stray("commit", branch)) for sink, branch in wanted if progress[1 + sink] is None]


def _with_strays(acting: Acting, world: ExploredWorld) -> ExploredWorld:
    for sink, stray in _under_way(acting):
        world = world.with_stray(sink, stray)
    return world
