"""What can happen next to a service: the steps of the current leader, deaths, late messages, what gets lost.

What the process computes, from where to where it reads and what it does at its start is the real code's
(`process.py`). Modelled is the engine around it, whose every interleaving the other searches walk through: who
takes over sweeps, finishes what is pending, and has the epoch run again where a branch of it is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.search import Move
from tpc.chaos.explorer.service import checks
from tpc.chaos.explorer.service.process import Asked, Ended, Reads, Refused, polls_that_can_come
from tpc.chaos.explorer.service.program import SINKS, SOURCES
from tpc.chaos.explorer.service.source import Held
from tpc.chaos.explorer.service.store import Branch, Sinks, with_sink, without
from tpc.chaos.explorer.service.timed import CLOCK_MS
from tpc.chaos.explorer.service.world import Intent, Leader, ServiceWorld
from tpc.sink import Verdict


def moves(world: ServiceWorld) -> Iterator[Move[ServiceWorld]]:
    """What can happen next."""
    if world.leader is None:
        yield Move("another process takes over", _taken_over(world))
    else:
        yield from _steps(world, world.leader)
    if world.late is not None:
        yield from _late_message(world, world.late)
    if world.faults:
        once_less = replace(world, faults=world.faults - 1)
        yield from (Move(label, after, is_fault=True) for label, after in _faults(once_less))


# The current leader ----------------------------------------------------------------------------------------


def _taken_over(world: ServiceWorld) -> ServiceWorld:
    """A new term: it sweeps what no intent names, and finishes what is pending."""
    term, pending, sinks = world.terms + 1, world.pending, world.sinks
    named = {branch for intent in world.log for branch in intent.branches}
    for number in range(len(SINKS)):
        sinks = without(sinks, number, sinks[number].prepared - named)
    leader = Leader(term, "begin", complete=world.completed)
    if pending is not None:
        leader = replace(leader, does="commit", unsettled=frozenset(pending.branches))
    return replace(world, terms=term, leader=leader, sinks=sinks)


def _steps(world: ServiceWorld, leader: Leader) -> Iterator[Move[ServiceWorld]]:
    match leader.does:
        case "begin":
            yield _begun(world, leader)
        case "read":
            yield from _cuts(world, leader)
        case "prepare":
            sinks = _with_prepared(world.sinks, leader.branches)
            yield Move("the branches are prepared", _with(world, replace(leader, does="decide"), sinks=sinks))
        case "decide":
            yield _decided(world, leader)
        case "commit":
            yield from _commits(world, leader)
        case "stop":
            yield from _resolutions(world, leader)


def _resolutions(world: ServiceWorld, leader: Leader) -> Iterator[Move[ServiceWorld]]:
    """What cannot be written again an operator gives up, on the record; an old source he brings back."""
    for number, held in enumerate(world.sources):
        if held.made:
            back = _holding(world, number, held._replace(made=0))
            yield Move(f"the old {SOURCES[number]} is brought back", _with(back, None))
    for branch in sorted(leader.lost):
        log = (*world.log[:-1], world.log[-1].giving_up(branch))
        yield Move(f"an operator gives up the branch of {world.names[branch.sink]}", _with(world, None, log=log))


def _with(world: ServiceWorld, leader: Leader | None, **changed: object) -> ServiceWorld:
    return replace(world, leader=leader, **changed)  # type: ignore[arg-type]  # fields of it


def _begun(world: ServiceWorld, leader: Leader) -> Move[ServiceWorld]:
    """`Running.begin`: the epoch is run again where a branch of it is lost, and else it reads on."""
    began = replace(leader, past=(world.found(is_lost=bool(leader.lost)), ()))
    asked = began.asks()
    if isinstance(asked, Asked):
        return _repaired(world, began, asked)
    if isinstance(asked, Refused):
        return _refused(world, began, asked)
    if leader.lost:
        raise Violation("replay", "a branch is lost, and the process reads on where it should read again what was read")
    return Move("it has begun", _with(world, replace(began, does="read")))


def _refused(world: ServiceWorld, leader: Leader, refused: Refused) -> Move[ServiceWorld]:
    anew = [name for name, held in zip(SOURCES, world.sources, strict=True) if held.made]
    if not world.is_damaged and not any(repr(name) in refused.what for name in anew):
        raise Violation("legal", f"a start is refused for nothing: {refused.what}")
    return Move("its start is refused", _with(world, replace(leader, does="stop")))


def _repaired(world: ServiceWorld, leader: Leader, asked: Asked) -> Move[ServiceWorld]:
    """The lost branches, and only they, are written again; other rows are refused, as the machine does."""
    pending = world.pending
    if pending is None or asked.epoch != pending.epoch:
        raise Violation("replay", f"epoch {asked.epoch} is run again, which is not pending")
    if asked.rows != pending.rows:
        if not world.is_damaged:
            raise Violation("replay", f"epoch {asked.epoch} made {pending.rows}, and run again {asked.rows}")
        return Move("other rows are refused", _with(world, replace(leader, does="stop")))
    lost = {branch.sink for branch in leader.lost}
    made = _branches(world, leader, asked, lost)
    others = tuple(branch for branch in pending.branches if branch.sink not in lost)
    log = (*world.log[:-1], pending._replace(branches=tuple(sorted((*others, *made)))))
    after = replace(leader, does="commit", unsettled=frozenset(made), lost=frozenset(), attempts=leader.attempts + 1)
    sinks = _with_prepared(world.sinks, made)
    return Move(f"epoch {asked.epoch} is run again and repaired", _with(world, after, sinks=sinks, log=log))


def _branches(world: ServiceWorld, leader: Leader, asked: Asked, wanted: set[int]) -> tuple[Branch, ...]:
    """What the writers would prepare; a state's refuses rows that rest on another epoch than its store is at."""
    made = []
    for number, rows in enumerate(asked.rows):
        if rows and number in wanted:
            applied, rests_on = world.sinks[number].applied, asked.rests_on[number]
            if rests_on not in (None, applied):
                raise Violation(
                    "memory", f"{world.names[number]} in memory rests on {rests_on}, its store is at {applied}"
                )
            made.append(Branch(number, asked.epoch, leader.term, leader.attempts, rows, applied, rests_on))
    return tuple(made)


def _cuts(world: ServiceWorld, leader: Leader, *, goes_back: bool = False) -> Iterator[Move[ServiceWorld]]:
    """The next epoch, where the clock goes on or stands still, or goes back."""
    last_ms = checks.last_now_ms(world)
    clock_ms = [at for at in CLOCK_MS if (last_ms is not None and at < last_ms) == goes_back]
    for polled in polls_that_can_come(world.ends, world.lengths, clock_ms if world.has_timers else None):
        cut = leader.answered(polled, "prepare")
        asked = cut.asks()
        checks.check_polled(world, polled, asked)
        if isinstance(asked, Refused):
            yield _refused(world, leader, asked)
        elif isinstance(asked, Asked):
            branches = _branches(world, leader, asked, set(range(len(SINKS))))
            after = replace(cut, branches=branches, attempts=leader.attempts + 1)
            at = f", at {polled.now_ms} ms" if world.has_timers else ""
            yield Move(f"epoch {asked.epoch} is cut after {polled.counts}{at}", _with(world, after))


def _decided(world: ServiceWorld, leader: Leader) -> Move[ServiceWorld]:
    asked = leader.asks()
    assert isinstance(asked, Asked)
    log = (*world.log, Intent(asked.epoch, asked.epoch_input, asked.rows, leader.branches))
    after = replace(leader, does="commit", unsettled=frozenset(leader.branches))
    return Move(f"epoch {asked.epoch} is decided", _with(world, after, log=log))


def _commits(world: ServiceWorld, leader: Leader) -> Iterator[Move[ServiceWorld]]:
    if not leader.unsettled:
        yield _finished(world, leader)
    for branch in sorted(leader.unsettled):
        verdict, sink = world.sinks[branch.sink].commit(branch, leader.complete)
        after = replace(leader, unsettled=leader.unsettled - {branch})
        if verdict is Verdict.UNKNOWN:
            after = replace(leader, does="stop")
        elif verdict is Verdict.LOST:
            after = replace(after, lost=leader.lost | {branch})
        sinks = with_sink(world.sinks, branch.sink, sink)
        yield Move(f"{world.names[branch.sink]} answers {verdict.value}", _with(world, after, sinks=sinks))


def _finished(world: ServiceWorld, leader: Leader) -> Move[ServiceWorld]:
    epoch = world.log[-1].epoch
    if leader.lost and leader.past is not None:
        return Move("it ends, since a branch is lost", _with(world, None))
    if leader.lost:
        return Move("it begins, and a branch is lost", _with(world, replace(leader, does="begin")))
    leader = replace(leader, complete=epoch, branches=())
    label = f"epoch {epoch} is complete"
    if leader.past is None:
        return Move(label, _with(world, replace(leader, does="begin"), completed=epoch))
    after = leader.answered(Ended(is_aborted=False, stores=world.stores), "read")
    asked = after.asks()
    if isinstance(asked, Refused):  # what is behind the repaired epoch is gone, too
        return _refused(replace(world, completed=epoch), after, asked)
    assert isinstance(asked, Reads)
    return Move(label, _with(world, after, completed=epoch))


def _with_prepared(sinks: Sinks, branches: tuple[Branch, ...]) -> Sinks:
    for branch in branches:
        held = sinks[branch.sink]
        sinks = with_sink(sinks, branch.sink, replace(held, prepared=held.prepared | {branch}))
    return sinks


# What is not in its hand ---------------------------------------------------------------------------------------


def _faults(world: ServiceWorld) -> Iterator[tuple[str, ServiceWorld]]:
    leader, pending = world.leader, world.pending
    if leader is not None and leader.does != "stop":
        yield "the process dies", _with(world, None)
        if world.late is None and leader.does in ("prepare", "commit"):
            yield "the process is taken for dead", _with(world, None, late=leader)
        if leader.does == "decide":
            yield "the epoch is aborted", _aborted(world, leader)
        if leader.does == "read" and world.has_timers:
            for move in _cuts(world, leader, goes_back=True):
                yield f"{move.label}: the clock has gone back", move.world
    for branch in pending.branches if pending is not None else ():
        if branch in world.sinks[branch.sink].prepared:
            sinks = without(world.sinks, branch.sink, frozenset({branch}))
            yield f"{world.names[branch.sink]} loses its branch", replace(world, sinks=sinks)
    for number, end in enumerate(world.ends):
        held = world.sources[number]
        start = int(world.log[-1].epoch_input.start[number]) if world.log else 0
        if held.first < end:
            kept = held._replace(first=end, compacted=None)
            yield f"{SOURCES[number]} keeps nothing before {end}", _holding(world, number, kept)
        if start < end and not held.is_damaged:
            yield f"{SOURCES[number]} compacts event {start}", _holding(world, number, held._replace(compacted=start))
        if world.log and not held.made:
            anew = _with(_holding(world, number, held._replace(made=1)), None)
            yield f"the process dies, {SOURCES[number]} is recreated and has as much", anew


def _holding(world: ServiceWorld, source: int, held: Held) -> ServiceWorld:
    sources = (held, world.sources[1]) if source == 0 else (world.sources[0], held)
    return replace(world, sources=sources)


def _aborted(world: ServiceWorld, leader: Leader) -> ServiceWorld:
    """Nothing is decided; the process goes on with the objects that it has."""
    sinks = world.sinks
    for branch in leader.branches:
        sinks = without(sinks, branch.sink, frozenset({branch}))
    after = leader.answered(Ended(is_aborted=True, stores=world.stores), "read")
    return _with(world, replace(after, branches=()), sinks=sinks)


def _late_message(world: ServiceWorld, late: Leader) -> Iterator[Move[ServiceWorld]]:
    gone = replace(world, late=None)
    if late.does == "prepare":
        sinks = _with_prepared(world.sinks, late.branches)
        yield Move("branches are prepared late", replace(gone, sinks=sinks), is_fault=True)
    for branch in sorted(late.unsettled):
        _, sink = world.sinks[branch.sink].commit(branch, late.complete)
        sinks = with_sink(world.sinks, branch.sink, sink)
        yield Move(f"the commit of {branch.name} arrives late", replace(gone, sinks=sinks), is_fault=True)
