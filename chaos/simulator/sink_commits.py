"""What a simulated system makes of a commit: every fault that may befall one, and the answer for each branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.systems import System
from tpc.errors import TransientError
from tpc.handles import Handle
from tpc.sink import Outcome, Verdict

_DEADLINE_S = 10.0


def commit(system: System, names: list[str], hang: Callable[[float], None]) -> list[Outcome]:
    """One answer a branch. `hang` lets the caller wait. Raises `TransientError` when there is no answer."""
    world, what = system.world, system.name
    epoch = Handle.parse(names[0]).epoch
    _maybe_lose(system, names)
    if world.strikes(Fault.COMMIT_UNKNOWN, what):
        raise TransientError("no answer to a commit")
    if world.strikes(Fault.COMMIT_LATE, what):
        world.later(f"{what}: a commit of {short(names)}", lambda: system.commit(names))
        raise TransientError("no answer to a commit")
    if world.strikes(Fault.COMMIT_HANG, what):
        hang(_DEADLINE_S)
        raise TransientError("deadline passed")
    if system.traits.refuses and world.strikes(Fault.COMMIT_REFUSED, what):
        system.refused_epochs.add(epoch)
    if epoch in system.refused_epochs:
        return [Outcome(Verdict.REFUSED, "no such column")] * len(names)
    if world.strikes(Fault.COMMIT_RAISES, what):
        system.commit(names if system.traits.one_act else names[:1])
        raise TransientError("raised instead of answering")
    if world.strikes(Fault.COMMIT_DUPLICATED, what):
        world.later(f"{what}: again a commit of {short(names)}", lambda: system.commit(names))
    outcomes = _each(system, names)
    if world.strikes(Fault.COMMIT_REPLY_LOST, what):
        raise TransientError("the answer to a commit is lost")
    return outcomes


def _maybe_lose(system: System, names: list[str]) -> None:
    there = [name for name in names if name in system.prepared]
    if there and system.world.strikes(Fault.BRANCH_LOST, there[0]):
        system.lose(there[0])


def _each(system: System, names: list[str]) -> list[Outcome]:
    if system.traits.one_act:
        before = set(system.markers)
        system.commit(names)
        outcomes = [_found(system, name, known=name in before) for name in names]
        lost = next((outcome for outcome in outcomes if outcome.verdict is Verdict.LOST), None)
        return outcomes if lost is None else [lost] * len(names)
    outcomes = []
    for name in names:
        known = name in system.markers
        system.commit([name])
        outcomes.append(_found(system, name, known=known))
        system.world.call("sink.commit.one")
    return outcomes


def _found(system: System, name: str, *, known: bool) -> Outcome:
    """The answer for one branch after the attempt to commit it."""
    if name in system.markers:
        return Outcome(Verdict.ALREADY if known else Verdict.COMMITTED)
    if name in system.gone and system.traits.tells_loss:
        return Outcome(Verdict.LOST, "the system says it was undone")
    system.contradicted.add(name)
    return Outcome(Verdict.UNKNOWN, "neither prepared nor marked", contradiction=True)


def short(names: Sequence[str]) -> str:
    """Branches for people: epoch, partition and generation."""
    handles = [Handle.parse(name) for name in names]
    return ", ".join(f"e{h.epoch}p{h.partition}g{h.generation}a{h.attempt}" for h in handles)
