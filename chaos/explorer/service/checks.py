"""What must hold in every explored world of a service, and what is its end.

What the decided epochs come to is computed here a second time, plainly, from the events and the cuts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.service.process import Asked, Began, Polled, Reads, Refused
from tpc.chaos.explorer.service.program import EVENTS, SOURCES, TTL_S, key_of
from tpc.chaos.explorer.service.store import Stored
from tpc.chaos.explorer.service.timed import Kept, Row, due_in, timed_epoch, watermark_of
from tpc.chaos.explorer.service.world import Intent, ServiceWorld, numbers
from tpc.coordinator.service.state.codec import VERSION, decode
from tpc.coordinator.service.state.epoch_state import OBJECT_KEY
from tpc.json import parse
from tpc.manifest import EpochInput
from tpc.transactional import Transactional, make_transactional
from tpc.watermark import time_in


class Epoch(NamedTuple):
    """Where it ends, the sinks whose branch of it was given up, and, with timers, the time that it has read."""

    ends: tuple[str, ...]
    given_up: frozenset[int] = frozenset()
    now_ms: int | None = None


Epochs = tuple[Epoch, ...]


class RunOutcome(NamedTuple):
    """What an epoch should come to: its rows, and what the state and the object hold then."""

    rows: tuple[Row, ...]
    sums: dict[str, tuple[int, int]]
    """By key: the sum, and when it expires."""
    model: list[int]
    wake: dict[str, int]
    """By key: when the timer is due."""


@cache
def outcome(epochs: Epochs) -> RunOutcome:
    """Of the last of these epochs, each of which begins where the one before it ended."""
    if not epochs:
        return RunOutcome((), {}, [], {})
    before, (ends, given_up, now_ms) = outcome(epochs[:-1]), epochs[-1]
    starts = numbers(epochs[-2].ends) if epochs[1:] else (0, 0)
    if now_ms is not None:
        made, kept = timed_epoch(Kept(before.sums, before.wake), starts, numbers(ends), now_ms)
        sums, wake = (before.sums if 1 in given_up else kept.sums), (before.wake if 2 in given_up else kept.wake)
        return RunOutcome(tuple(made), sums, [], wake)
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
    return RunOutcome(tuple(rows), before.sums if 1 in given_up else sums, before.model if 2 in given_up else model, {})


def _left(sums: dict[str, tuple[int, int]], events: int) -> dict[str, tuple[int, int]]:
    """What the event after so many of the source that tells the time sees of it."""
    watermark_ms = watermark_of(events)
    return {key: held for key, held in sums.items() if watermark_ms is None or held[1] > watermark_ms}


def check(world: ServiceWorld) -> None:
    """What holds in every state. Raises `Violation`."""
    _check_log(world.log)
    _check_rows(world)
    for number in (1, 2):
        _check_store(world, number)
    leader = world.leader
    if leader is not None and leader.does in ("read", "prepare", "decide"):
        for number, name in enumerate(world.names):
            shown, last = world.sinks[number].applied, world.last_change(number, len(world.log))
            if shown != last:
                raise Violation("position", f"a process reads on, and {name} is at epoch {shown}, not {last}")
    if leader is not None and leader.past is not None and leader.does != "stop":
        _check_sources(leader.past[0])
    if leader is not None and leader.does in ("prepare", "decide"):
        asked = leader.asks()
        assert isinstance(asked, Asked)
        _check_cut(world.log, asked.epoch, asked.epoch_input)
        wanted = outcome((*_epochs(world, world.log), _epoch(world, asked.epoch_input))).rows
        if asked.rows[0] != wanted:
            raise Violation("memory", f"epoch {asked.epoch} makes {asked.rows[0]}, not {wanted}")


def _check_sources(began: Began) -> None:
    """Who begins reads on only in what the decided epochs have read: a source is recreated after an epoch, or never."""
    anew = [name for name, held in zip(SOURCES, began.sources, strict=True) if held.made]
    if anew and began.decided:
        raise Violation("source", f"{anew[0]} was recreated since epoch {len(began.decided) - 1}, and is read on")


def _epochs(world: ServiceWorld, log: Sequence[Intent]) -> Epochs:
    return tuple(_epoch(world, intent.epoch_input, intent.given_up) for intent in log)


def _epoch(world: ServiceWorld, epoch_input: EpochInput, given_up: frozenset[int] = frozenset()) -> Epoch:
    return Epoch(epoch_input.end, given_up, _now_ms(epoch_input) if world.has_timers else None)


@cache
def _now_ms(epoch_input: EpochInput) -> int:
    """The time of the clock that an epoch has on record."""
    now_ms = time_in(parse(epoch_input.offsets_file.encode())).now_ms
    if now_ms is None:
        raise Violation("clock", "the intent of an epoch does not hold the time that it has read")
    return now_ms


def last_now_ms(world: ServiceWorld) -> int | None:
    """The time that the last decided epoch has on record, of a service with timers."""
    return _now_ms(world.log[-1].epoch_input) if world.log and world.has_timers else None


def check_polled(world: ServiceWorld, polled: Polled, asked: Asked | Reads | Refused) -> None:
    """When the clock shows this, an epoch is cut, or none, as what waits wants it. Raises `Violation`."""
    if not world.has_timers or isinstance(asked, Refused):
        return
    epochs, last_ms = _epochs(world, world.log), last_now_ms(world)
    now_ms = polled.now_ms if last_ms is None else max(last_ms, polled.now_ms)
    if isinstance(asked, Asked) and _now_ms(asked.epoch_input) != now_ms:
        raise Violation("clock", f"an epoch is cut at {now_ms} ms, and has {_now_ms(asked.epoch_input)} ms on record")
    left = outcome(epochs)
    due = due_in(Kept(left.sums, left.wake), watermark_of(world.ends[0]), now_ms)
    if polled.counts == (0, 0) and bool(due) != isinstance(asked, Asked):
        raise Violation("due", f"at {now_ms} ms, with {due} due and no events, it asks {asked}")


@cache
def _check_log(log: tuple[Intent, ...]) -> None:
    for at, intent in enumerate(log):
        _check_cut(log[:at], intent.epoch, intent.epoch_input)


def _check_cut(before: Sequence[Intent], epoch: int, epoch_input: EpochInput) -> None:
    """It begins where the one before has ended, and brings something."""
    last = before[-1].epoch_input.end if before else ("0", "0")
    if (epoch, epoch_input.start) != (len(before), last):
        raise Violation("cut", f"epoch {epoch} begins at {epoch_input.start}; epoch {len(before)} should, at {last}")
    if any(int(end) < int(start) for start, end in zip(epoch_input.start, epoch_input.end, strict=True)):
        raise Violation("cut", f"epoch {epoch} goes back from {epoch_input.start} to {epoch_input.end}")


def _check_rows(world: ServiceWorld) -> None:
    """The sink of rows shows each decided epoch once, in order, with its rows."""
    shown = world.sinks[0].committed
    for branch in shown:
        if branch.epoch >= len(world.log) or branch not in world.log[branch.epoch].branches:
            raise Violation("beyond", f"the rows of {branch.name} are shown, and no intent names it")
        if branch.rows != (wanted := outcome(_epochs(world, world.log[: branch.epoch + 1])).rows):
            raise Violation("content", f"epoch {branch.epoch} shows {branch.rows}, not {wanted}")
    epochs = [branch.epoch for branch in shown]
    wanted_epochs = [intent.epoch for intent in world.log if intent.rows[0] and 0 not in intent.given_up][: len(epochs)]
    if epochs != wanted_epochs:
        raise Violation("exactly-once", f"the epochs {epochs} are shown, not {wanted_epochs}")


def _check_store(world: ServiceWorld, number: int) -> None:
    name, store, pending = world.names[number], world.sinks[number], world.pending
    if store.applied >= len(world.log):
        raise Violation("beyond", f"{name} has applied epoch {store.applied}, which is not decided")
    last = {world.last_change(number, len(world.log))}
    if pending is not None:
        last.add(world.last_change(number, pending.epoch))
    if store.applied not in last:
        raise Violation("position", f"{name} is at epoch {store.applied}, not at one of {sorted(last)}")
    # A key may be gone by an epoch that changed nothing else: the content is that of the last epoch that changed it.
    wanted = outcome(_epochs(world, world.log[: store.applied + 1]))
    assert isinstance(store, Stored)
    held = {change.key: change for change in store.seen().held}
    if number == 1:
        found = {decode(key): (decode(c.value or b""), c.expires_ms) for key, c in held.items()}
        if found != wanted.sums:
            raise Violation("content", f"at epoch {store.applied} {name} holds {found}, not {wanted.sums}")
    elif world.has_timers:
        pending_ms = {decode(VERSION + key[1:]): each.expires_ms for key, each in held.items()}
        if pending_ms != wanted.wake:
            raise Violation("content", f"at epoch {store.applied} {name} holds {pending_ms}, not {wanted.wake}")
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
        raise Violation("undo", f"epoch {pending.epoch} is not complete, and {world.names[number]} cannot take it back")
    if before[0] != last:
        raise Violation(
            "undo", f"{world.names[number]} before epoch {pending.epoch} is of epoch {last}, not {before[0]}"
        )


def is_goal(world: ServiceWorld) -> bool:
    """All events are decided and complete."""
    return world.ends == world.lengths and world.pending is None
