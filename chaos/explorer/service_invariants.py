"""What must hold in every explored world of a service, and what is its end.

What the decided epochs come to is computed here a second time, plainly, from the events and the cuts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.service_process import Asked, Began
from tpc.chaos.explorer.service_program import EVENTS, SINKS, SOURCES, TTL_S, key_of
from tpc.chaos.explorer.service_store import Stored
from tpc.chaos.explorer.service_world import Intent, ServiceWorld
from tpc.coordinator.service.state.codec import decode
from tpc.coordinator.service.state.epoch_state import OBJECT_KEY
from tpc.manifest import Barrier
from tpc.transactional import Transactional, make_transactional

Epochs = tuple[tuple[tuple[str, ...], frozenset[int]], ...]
"""Where each epoch ends, and the sinks whose branch of it was given up."""


class RunOutcome(NamedTuple):
    """What an epoch should come to: its rows, and what the state and the object hold then."""

    rows: tuple[tuple[str, int, int, int], ...]
    sums: dict[str, tuple[int, int]]
    """By key: the sum, and when it expires."""
    model: list[int]


@cache
def outcome(epochs: Epochs) -> RunOutcome:
    """Of the last of these epochs, each of which begins where the one before it ended."""
    if not epochs:
        return RunOutcome((), {}, [])
    before, (ends, given_up) = outcome(epochs[:-1]), epochs[-1]
    starts = tuple(map(int, epochs[-2][0])) if epochs[1:] else (0, 0)
    sums = _left(before.sums, starts[0])
    model, rows = list(before.model), []
    for number, event in enumerate(EVENTS[0][starts[0] : int(ends[0])], starts[0]):
        sums, key = _left(sums, number), key_of(event)
        total, ends_ms = sums.get(key, (0, event.time_ms))
        total += event.number + 1
        sums[key] = total, max(ends_ms, event.time_ms + round(TTL_S * 1000))
        rows.append((event.source, event.number, total, len(sums)))
    for event in EVENTS[1][starts[1] : int(ends[1])]:
        model.append(event.number)
        rows.append((event.source, event.number, len(model), 0))
    return RunOutcome(tuple(rows), before.sums if 1 in given_up else sums, before.model if 2 in given_up else model)


def _left(sums: dict[str, tuple[int, int]], events: int) -> dict[str, tuple[int, int]]:
    """What the event after so many of the source that tells the time sees of it."""
    watermark_ms = max((event.time_ms for event in EVENTS[0][:events]), default=None)
    return {key: held for key, held in sums.items() if watermark_ms is None or held[1] > watermark_ms}


def check(world: ServiceWorld) -> None:
    """What holds in every state. Raises `Violation`."""
    _check_log(world.log)
    _check_rows(world)
    for number in (1, 2):
        _check_store(world, number)
    leader = world.leader
    if leader is not None and leader.does in ("read", "prepare", "decide"):
        for number, name in enumerate(SINKS):
            shown, last = world.sinks[number].applied, world.last_change(number, len(world.log))
            if shown != last:
                raise Violation("position", f"a process reads on, and {name} is at epoch {shown}, not {last}")
    if leader is not None and leader.past is not None and leader.does != "stop":
        _check_sources(leader.past[0])
    if leader is not None and leader.does in ("prepare", "decide"):
        asked = leader.asks()
        assert isinstance(asked, Asked)
        _check_cut(world.log, asked.epoch, asked.barrier)
        wanted = outcome((*_epochs(world.log), (asked.barrier.end, frozenset()))).rows
        if asked.rows[0] != wanted:
            raise Violation("memory", f"epoch {asked.epoch} makes {asked.rows[0]}, not {wanted}")


def _check_sources(began: Began) -> None:
    """Who begins reads on only in what the decided epochs have read: a source is recreated after an epoch, or never."""
    anew = [name for name, held in zip(SOURCES, began.sources, strict=True) if held.made]
    if anew and began.decided:
        raise Violation("source", f"{anew[0]} was recreated since epoch {len(began.decided) - 1}, and is read on")


def _epochs(log: Sequence[Intent]) -> Epochs:
    return tuple((intent.barrier.end, intent.given_up) for intent in log)


@cache
def _check_log(log: tuple[Intent, ...]) -> None:
    for at, intent in enumerate(log):
        _check_cut(log[:at], intent.epoch, intent.barrier)


def _check_cut(before: Sequence[Intent], epoch: int, barrier: Barrier) -> None:
    """It begins where the one before has ended, and brings something."""
    last = before[-1].barrier.end if before else ("0", "0")
    if (epoch, barrier.start) != (len(before), last):
        raise Violation("cut", f"epoch {epoch} begins at {barrier.start}; epoch {len(before)} should, at {last}")
    if any(int(end) < int(start) for start, end in zip(barrier.start, barrier.end, strict=True)):
        raise Violation("cut", f"epoch {epoch} goes back from {barrier.start} to {barrier.end}")


def _check_rows(world: ServiceWorld) -> None:
    """The sink of rows shows each decided epoch once, in order, with its rows."""
    shown = world.sinks[0].committed
    for branch in shown:
        if branch.epoch >= len(world.log) or branch not in world.log[branch.epoch].branches:
            raise Violation("beyond", f"the rows of {branch.name} are shown, and no intent names it")
        if branch.rows != (wanted := outcome(_epochs(world.log[: branch.epoch + 1])).rows):
            raise Violation("content", f"epoch {branch.epoch} shows {branch.rows}, not {wanted}")
    epochs = [branch.epoch for branch in shown]
    wanted_epochs = [intent.epoch for intent in world.log if intent.rows[0] and 0 not in intent.given_up][: len(epochs)]
    if epochs != wanted_epochs:
        raise Violation("exactly-once", f"the epochs {epochs} are shown, not {wanted_epochs}")


def _check_store(world: ServiceWorld, number: int) -> None:
    name, store, pending = SINKS[number], world.sinks[number], world.pending
    if store.applied >= len(world.log):
        raise Violation("beyond", f"{name} has applied epoch {store.applied}, which is not decided")
    last = {world.last_change(number, len(world.log))}
    if pending is not None:
        last.add(world.last_change(number, pending.epoch))
    if store.applied not in last:
        raise Violation("position", f"{name} is at epoch {store.applied}, not at one of {sorted(last)}")
    # A key may be gone by an epoch that changed nothing else: the content is that of the last epoch that changed it.
    wanted = outcome(_epochs(world.log[: store.applied + 1]))
    assert isinstance(store, Stored)
    held = {change.key: change for change in store.seen().held}
    if number == 1:
        found = {decode(key): (decode(c.value or b""), c.expires_ms) for key, c in held.items()}
        if found != wanted.sums:
            raise Violation("content", f"at epoch {store.applied} {name} holds {found}, not {wanted.sums}")
    else:
        model: Transactional[list[int]] = make_transactional([])
        model.restore(held[OBJECT_KEY].value if held else None)
        if model.value != wanted.model:
            raise Violation("content", f"at epoch {store.applied} {name} holds {model.value}, not {wanted.model}")
    if pending is not None:
        _check_undo(world, number, pending)


def _check_undo(world: ServiceWorld, number: int, pending: Intent) -> None:
    """Until an epoch is complete, the state before it can be had, and is known to be that of its last change."""
    before, last = world.stores[number - 1].over(pending.epoch), world.last_change(number, pending.epoch)
    if before is None:
        raise Violation("undo", f"epoch {pending.epoch} is not complete, and {SINKS[number]} cannot take it back")
    if before[0] != last:
        raise Violation("undo", f"{SINKS[number]} before epoch {pending.epoch} is of epoch {last}, not {before[0]}")


def is_goal(world: ServiceWorld) -> bool:
    """All events are decided and complete."""
    return world.ends == tuple(map(len, EVENTS)) and world.pending is None
