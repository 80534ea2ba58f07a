"""One state of the explored world: the log, the sinks, the coordinators that are alive, and what is on its way.

Values only, never changed. `ExploredWorld.key` is equal for two states that differ in nothing that can matter, sinks
being interchangeable; what can happen next is in `moves.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from tpc.chaos.explorer.protocol.branches import PIPELINE, SINKS, BranchKey, branch_named, branch_of, handle_of
from tpc.effects import MachineEffect, PutRecord
from tpc.history import DamagedSlot, History
from tpc.records import Record
from tpc.sink import InDoubt, Marker, Owner
from tpc.states import MachineState

_codes: dict[Any, int] = {}


def _code(part: Any) -> int:
    """A number that stands for a part of a state, so that a million states fit into memory."""
    return _codes.setdefault(part, len(_codes))


@dataclass(frozen=True)
class Participant:
    """A sink: its prepared and committed branches, those it lost on its own, and its owner entry.

    `unmarked`: committed branches whose marker it has lost. It takes them for branches in doubt, as files do.
    """

    prepared: frozenset[BranchKey] = frozenset()
    committed: frozenset[BranchKey] = frozenset()
    expired: frozenset[BranchKey] = frozenset()
    owner: Owner | None = None
    unmarked: frozenset[BranchKey] = frozenset()

    @cached_property
    def code(self) -> int:
        """Stands for what distinguishes this sink."""
        owner = None if self.owner is None else self.owner.generation
        return _code((self.prepared, self.committed, self.expired, owner, self.unmarked))

    def marker(self, sink: int) -> Marker | None:
        """What the sink shows as its newest epoch."""
        newest = max(self.committed - self.unmarked, default=None)
        return None if newest is None else Marker(newest.epoch, handle_of(sink, newest))

    def in_doubt(self, sink: int) -> list[InDoubt]:
        """What the sink lists as prepared."""
        return [
            InDoubt(str(handle_of(sink, b)), PIPELINE, b.generation, SINKS[sink], b.epoch)
            for b in sorted(self.prepared | self._unsettled())
        ]

    def _unsettled(self) -> frozenset[BranchKey]:
        """What it takes for undecided: it is in no marker, and no marker of a later epoch settles it."""
        newest = max((branch.epoch for branch in self.committed - self.unmarked), default=-1)
        return frozenset(branch for branch in self.unmarked if branch.epoch >= newest)


@dataclass(frozen=True)
class Actor:
    """A coordinator that is alive: the machine's state, what it has read of the log, what it still has to do.

    `progress` is how far the first effect of `todo` has come: one entry for the whole and one per sink.
    """

    number: int
    state: MachineState
    history: History
    next_batch: int
    todo: tuple[MachineEffect, ...] = ()
    progress: tuple[Any, ...] = ()
    sweeps_later: bool = False
    repeated_tasks: bool = False

    @cached_property
    def code(self) -> int:
        """Stands for what distinguishes this coordinator, but for its number and what concerns one sink."""
        return _code(_actor_key(self))

    @cached_property
    def sink_codes(self) -> tuple[int, ...]:
        """The rest, one entry per sink."""
        return tuple(_code(_actor_sink_key(self, sink)) for sink in range(len(SINKS)))


class Stray(NamedTuple):
    """A message whose sender has died or no longer waits: it may still arrive, at any time or never."""

    kind: str
    branch: BranchKey


@dataclass(frozen=True)
class ExploredWorld:
    """Everything. `faults`, `rivals`, `renewals`, `give_ups`, the losses are how many more of them may happen."""

    log: tuple[Record | DamagedSlot, ...] = ()
    history: History = field(default_factory=History)
    decided: tuple[tuple[BranchKey | None, ...], ...] = ()
    """The branches that the log names now, by epoch and sink."""
    sinks: tuple[Participant, ...] = (Participant(),) * len(SINKS)
    actors: tuple[Actor, ...] = ()
    strays: tuple[frozenset[Stray], ...] = (frozenset(),) * len(SINKS)
    stray_puts: tuple[Record, ...] = ()
    next_batch: int = 0
    """The batch after the last one that Spark has committed."""
    parked: tuple[int, str] | None = None
    faults: int = 2
    rivals: int = 1
    renewals: int = 1
    give_ups: int = 0
    """How often an operator may give up a sink that nothing has parked."""
    losses: int = 0
    """How often a sink may lose its markers."""
    log_losses: int = 0
    """How often the log may go away under a running coordinator."""
    is_log_away: bool = False
    """Whether the newest record that the running coordinator knows is not where it was, nor what came after it.

    How much went before it makes no difference: every question to the log begins at that record.
    """
    started: int = 0
    is_new_to_readers: bool = True
    """Whether the last step that others can see changed what a coordinator reads at its start."""

    def key(self) -> tuple[int, ...]:
        """What distinguishes this state from others: sinks in an order of their own, coordinators by their place."""
        names: dict[str, int] = {}
        whole = (
            tuple((slot.kind, _renamed(names, slot.nonce)) if isinstance(slot, Record) else None for slot in self.log),
            tuple((_renamed(names, str(actor.number)), actor.code) for actor in self.actors),
            tuple((record.slot, record.kind, _renamed(names, record.nonce)) for record in self.stray_puts),
            (
                self.next_batch,
                self.faults,
                self.rivals,
                self.renewals,
                self.give_ups,
                self.losses,
                self.log_losses,
                self.is_log_away,
                self.is_new_to_readers,
            ),
            None if self.parked is None else self.parked[0],
        )
        return (_code(whole), *sorted(self._sink_code(sink) for sink in range(len(SINKS))))

    def _sink_code(self, sink: int) -> int:
        return _code(
            (
                self.sinks[sink].code,
                self.strays[sink],
                tuple(named[sink] for named in self.decided),
                tuple((r.epoch, *r.ends) for r in self.history.resolutions if r.sink == SINKS[sink]),
                self.parked is not None and self.parked[1] == SINKS[sink],
                tuple(actor.sink_codes[sink] for actor in self.actors),
                tuple(sink in _repaired_sinks(record) for record in self.stray_puts),
            )
        )

    def with_markers_back(self) -> ExploredWorld:
        """This world after an operator has put back what sinks have lost of their markers."""
        return replace(self, sinks=tuple(replace(sink, unmarked=frozenset()) for sink in self.sinks))

    def with_sink(self, sink: int, participant: Participant) -> ExploredWorld:
        """This world with one sink changed."""
        return replace(self, sinks=(*self.sinks[:sink], participant, *self.sinks[sink + 1 :]))

    def with_actor(self, index: int, actor: Actor | None) -> ExploredWorld:
        """This world with one coordinator changed, or gone."""
        kept = () if actor is None else (actor,)
        return replace(self, actors=(*self.actors[:index], *kept, *self.actors[index + 1 :]))

    def settled(self) -> ExploredWorld:
        """This world without the messages on their way that can change nothing any more."""
        if not self.stray_puts and not any(self.strays):
            return self
        strays = tuple(
            frozenset(s for s in of_sink if s.kind == "prepare" or self._may_matter(sink, s.branch, of_sink))
            for sink, of_sink in enumerate(self.strays)
        )
        puts = tuple(record for record in self.stray_puts if record.slot > len(self.log))
        return (
            self if (strays, puts) == (self.strays, self.stray_puts) else replace(self, strays=strays, stray_puts=puts)
        )

    def _may_matter(self, sink: int, branch: BranchKey, strays: frozenset[Stray]) -> bool:
        return branch in self.sinks[sink].prepared or Stray("prepare", branch) in strays

    def with_stray(self, sink: int, *strays: Stray) -> ExploredWorld:
        """This world with messages to a sink on their way."""
        changed = self.strays[sink] | frozenset(strays)
        return replace(self, strays=(*self.strays[:sink], changed, *self.strays[sink + 1 :]))


def _renamed(names: dict[str, int], nonce: str) -> int:
    return names.setdefault(nonce, len(names))


def _actor_key(actor: Actor) -> tuple[Any, ...]:
    state = actor.state
    return (
        state.phase,
        state.generation,
        state.last_complete,
        state.epoch,
        None if state.pending is None else state.pending.epoch,
        None if state.proposed is None else state.proposed.epoch,
        len(state.resolutions),
        type(state.failure),
        actor.history.last_slot,
        len(actor.history.damaged),
        actor.next_batch,
        tuple((type(effect), effect.kind if isinstance(effect, PutRecord) else None) for effect in actor.todo),
        actor.progress[0] if actor.progress else None,
        actor.sweeps_later,
        actor.repeated_tasks,
    )


def _actor_sink_key(actor: Actor, sink: int) -> tuple[Any, ...]:
    state = actor.state
    return (
        frozenset(b for s, b in map(branch_of, state.unsettled) if s == sink),
        frozenset(b for s, b in map(branch_of, state.lost) if s == sink),
        frozenset(b for s, b in map(branch_of, state.refused) if s == sink),
        branch_named(state.pending, sink),
        branch_named(state.proposed, sink),
        None if state.proposed is None else state.proposed.sinks[SINKS[sink]].branches[0].digest,
        branch_named(state.replaying, sink),
        actor.progress[1 + sink] if actor.progress else None,
    )


def _repaired_sinks(record: Record) -> frozenset[int]:
    replaced: Mapping[str, Any] = record.body.get("replacements", {})
    return frozenset(branch_of(old)[0] for old in replaced)
