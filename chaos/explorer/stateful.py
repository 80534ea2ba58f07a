"""A state as a participant: what can happen to it, over the store's own rules.

Modelled is what surrounds the rules: a store whose transactions are whole or not at all, a log, another sink that may
lose its branch, coordinators that die or come late, a backup that is put back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tpc.chaos.explorer.invariants import Violation
from tpc.chaos.explorer.search import Exploration, Model, Move, Search
from tpc.coordinator.service.state import rules
from tpc.coordinator.service.state.rules import NO_EPOCH, Delta
from tpc.sink import Verdict

# The store. A content is the tuple of the epochs folded into it: one applied twice, out of order or undecided shows.

Content = tuple[int, ...]


class Branch(NamedTuple):
    """A prepared delta: its epoch, the term and attempt that made it, and the epoch on which it rests."""

    epoch: int
    term: int
    attempt: int
    rests_on: int

    @property
    def name(self) -> str:
        """Its handle."""
        return f"{self.epoch}.{self.term}.{self.attempt}"


@dataclass(frozen=True)
class StoreModel:
    """What is durable of a state."""

    applied: int = NO_EPOCH
    entries: Content = ()
    marked: frozenset[Branch] = frozenset()
    prepared: frozenset[Branch] = frozenset()
    kept: Content = ()
    """Epochs whose changes are kept apart."""

    @property
    def content(self) -> Content:
        """What it holds."""
        return self.entries + self.kept

    def commit(self, branch: Branch, complete: int) -> tuple[Verdict, StoreModel]:
        """One transaction; what it answers, the rules say."""
        marked, prepared = (frozenset(b.name for b in held) for held in (self.marked, self.prepared))
        delta = Delta(branch.name, branch.epoch, branch.rests_on, branch.rests_on)
        if answer := rules.outcome([delta], rules.Shown(self.applied, marked, prepared)):
            return answer.verdict, self
        return Verdict.COMMITTED, StoreModel(
            branch.epoch,
            self.entries,
            frozenset(each for each in self.marked if each.epoch >= complete) | {branch},
            self.prepared - {branch},
            (*self.kept, branch.epoch),
        )

    def compacted(self, complete: int) -> StoreModel:
        """Once one more epoch is among the entries, of those that somebody knows to be complete."""
        due = rules.to_compact(self.kept, complete)[:1]
        kept = tuple(epoch for epoch in self.kept if epoch not in due)
        return replace(self, entries=(*self.entries, *due), kept=kept)

    def before(self, epoch: int) -> Content | None:
        """The content before an epoch; None where it cannot be had any more."""
        if rules.not_undoable(epoch, [*self.entries, *self.kept], self.kept):
            return None
        return self.entries + tuple(of for of in self.kept if of < epoch)


EMPTY = StoreModel()


# The world around it ---------------------------------------------------------------------------------------------


class Intent(NamedTuple):
    """A decided epoch; no branch where it changed no state. A repair puts another branch in its place."""

    epoch: int
    branch: Branch | None


@dataclass(frozen=True)
class Leader:
    """A coordinator with its state in memory. `does` is what it does next."""

    term: int
    does: str
    content: Content = ()
    rests_on: int = NO_EPOCH
    branch: Branch | None = None
    attempts: int = 0
    complete: int = NO_EPOCH
    """What it knows to be complete: it may compact that."""


@dataclass(frozen=True)
class StateWorld:
    """Everything; `epochs` is how many there will be, `faults` how many may still happen."""

    log: tuple[Intent, ...] = ()
    completed: int = NO_EPOCH
    terms: int = 1
    store: StoreModel = EMPTY
    backup: StoreModel | None = None
    is_other_lost: bool = False
    """Whether the other sink has lost its branch of the pending epoch."""
    leader: Leader | None = Leader(1, "begin")
    late: Leader | None = None
    """A coordinator that was taken for dead, and has a message on its way."""
    went_back: bool = False
    epochs: int = 3
    faults: int = 2

    @property
    def pending(self) -> Intent | None:
        """The epoch that is decided and not complete."""
        return self.log[-1] if self.log and self.log[-1].epoch > self.completed else None

    @property
    def last_change(self) -> int:
        """The last decided epoch that changed the state."""
        return (self.folded(len(self.log)) or (NO_EPOCH,))[-1]

    def folded(self, end: int) -> Content:
        """What the decided epochs below `end` make together."""
        return tuple(intent.epoch for intent in self.log[: max(end, 0)] if intent.branch is not None)


def _compactions(world: StateWorld) -> Iterator[Move[StateWorld]]:
    """Beside the epochs, by whoever leads or has led, up to what it knows to be complete."""
    for who, known in (("the leader", world.leader), ("a coordinator taken for dead", world.late)):
        store = world.store if known is None else world.store.compacted(known.complete)
        if store != world.store:
            yield Move(f"{who} compacts an epoch", replace(world, store=store))


def _faults(world: StateWorld) -> Iterator[tuple[str, StateWorld]]:
    store, pending = world.store, world.pending
    if world.leader is not None:
        yield "the coordinator dies", replace(world, leader=None)
        if world.late is None:
            yield "the coordinator is taken for dead", replace(world, leader=None, late=world.leader)
        if world.leader.does == "decide":
            left = frozenset(each for each in store.prepared if each != world.leader.branch)
            aborted = replace(world.leader, does="begin", branch=None)
            yield "the epoch is aborted", replace(world, store=replace(store, prepared=left), leader=aborted)
    if pending is not None:
        yield "the other sink loses its branch", replace(world, is_other_lost=True)
        if pending.branch in store.prepared:
            left = frozenset(each for each in store.prepared if each != pending.branch)
            yield "the delta is lost", replace(world, store=replace(store, prepared=left))
    if world.backup is None:
        yield "a backup is made", replace(world, backup=store)
    elif world.backup.applied < store.applied:
        yield "the backup is put back", replace(world, store=world.backup, went_back=True)


def _late_message(world: StateWorld, late: Leader) -> Iterator[Move[StateWorld]]:
    gone = replace(world, late=None)
    if late.branch is not None and late.does == "prepare":
        store = replace(world.store, prepared=world.store.prepared | {late.branch})
        yield Move(f"{late.branch.name} is prepared late", replace(gone, store=store), is_fault=True)
    if late.branch is not None and late.does == "commit":
        _, store = world.store.commit(late.branch, late.complete)
        yield Move(f"the commit of {late.branch.name} arrives late", replace(gone, store=store), is_fault=True)


def _taken_over(world: StateWorld) -> StateWorld:
    """A new term: it sweeps what no intent names, finishes what is pending, and reads the state then."""
    term, pending = world.terms + 1, world.pending
    named = {intent.branch for intent in world.log}
    kept = frozenset(each for each in world.store.prepared if each in named)
    expected = {world.last_change}
    if pending is not None:
        expected.add((world.folded(pending.epoch) or (NO_EPOCH,))[-1])
    does = "commit" if pending else "restore"
    if world.store.applied not in expected:
        does = "stop"  # the newest marker is not what the log expects
    return replace(
        world,
        terms=term,
        leader=Leader(term, does, complete=world.completed),
        store=replace(world.store, prepared=kept),
    )


def _steps(world: StateWorld, leader: Leader) -> Iterator[Move[StateWorld]]:
    epoch, branch, store = len(world.log), leader.branch, world.store

    def then(does: str, changed: StateWorld = world, **known: object) -> StateWorld:
        return replace(changed, leader=replace(leader, does=does, **known))  # type: ignore[arg-type]  # fields of it

    if leader.does == "begin" and epoch < world.epochs:
        made = Branch(epoch, leader.term, leader.attempts, leader.rests_on)
        yield Move(f"epoch {epoch} is cut", then("prepare", branch=made, attempts=leader.attempts + 1))
        yield Move(f"epoch {epoch} changes nothing", then("decide", branch=None))
    elif leader.does == "prepare" and branch is not None:
        prepared = replace(world, store=replace(store, prepared=store.prepared | {branch}))
        yield Move(f"{branch.name} is prepared", then("decide", prepared))
    elif leader.does in ("decide", "restore") and store.applied != world.last_change:
        yield Move("the last look sees that the state has gone back", then("stop"))
    elif leader.does == "decide":
        decided = replace(world, log=(*world.log, Intent(epoch, branch)))
        yield Move(f"epoch {epoch} is decided", then("commit", decided))
    elif leader.does == "commit":
        yield from _commit(world, leader, world.log[-1])
    elif leader.does == "restore":
        yield Move("the state is read", then("begin", content=store.content, rests_on=store.applied))


def _commit(world: StateWorld, leader: Leader, pending: Intent) -> Iterator[Move[StateWorld]]:
    epoch, branch, verdict, store = *pending, Verdict.ALREADY, world.store
    if branch is not None:
        verdict, store = store.commit(branch, leader.complete)
    after = replace(world, store=store)
    if verdict is Verdict.LOST or (verdict is not Verdict.UNKNOWN and world.is_other_lost):
        yield Move(f"epoch {epoch} runs again", _repaired(after, leader, pending, is_lost=verdict is Verdict.LOST))
    elif verdict is Verdict.UNKNOWN:
        yield Move("an operator is asked", replace(after, leader=replace(leader, does="stop")))
    else:
        known = leader if branch is None else replace(leader, content=(*leader.content, epoch), rests_on=epoch)
        if leader.branch != branch or branch is None:
            known = replace(leader, does="restore")
        whole = replace(after, completed=epoch, leader=replace(known, complete=epoch, branch=None))
        yield Move(f"epoch {epoch} is complete", whole if known.does == "restore" else _began(whole))


def _began(world: StateWorld) -> StateWorld:
    return world if world.leader is None else replace(world, leader=replace(world.leader, does="begin"))


def _repaired(world: StateWorld, leader: Leader, pending: Intent, *, is_lost: bool) -> StateWorld:
    """The epoch is run on the content before it, for the branches that are lost, and only for them."""
    before = world.store.before(pending.epoch)
    if before != world.folded(pending.epoch):
        raise Violation("undo", f"epoch {pending.epoch} is run again on {before}, not on {world.folded(pending.epoch)}")
    branch, rests_on = pending.branch, (before or (NO_EPOCH,))[-1]
    if is_lost:
        branch = Branch(pending.epoch, leader.term, leader.attempts, world.store.applied)
        store = replace(world.store, prepared=world.store.prepared | {branch})
        world = replace(world, store=store, log=(*world.log[:-1], Intent(pending.epoch, branch)))
    ran = replace(leader, content=before, rests_on=rests_on, branch=branch, attempts=leader.attempts + 1)
    return replace(world, is_other_lost=False, leader=ran)


# The search ------------------------------------------------------------------------------------------------------


class StateModel(Model[StateWorld]):
    """Everything that can happen to a state, and what must hold meanwhile."""

    def __init__(self, scope: StateScope) -> None:
        super().__init__()
        self._scope = scope

    def first(self) -> StateWorld:
        """A coordinator has begun, and there is nothing yet."""
        return StateWorld(epochs=self._scope.epochs, faults=self._scope.state_faults)

    def moves(self, world: StateWorld) -> Iterator[Move[StateWorld]]:
        """What can happen next."""
        if world.leader is None:
            yield Move("another coordinator takes over", _taken_over(world))
        else:
            yield from _steps(world, world.leader)
        if world.late is not None:
            yield from _late_message(world, world.late)
        yield from _compactions(world)
        if world.faults:
            once_less = replace(world, faults=world.faults - 1)
            yield from (Move(label, after, is_fault=True) for label, after in _faults(once_less))

    def check(self, world: StateWorld) -> None:
        """What holds in every state. Raises `Violation`."""
        store, pending, end = world.store, world.pending, len(world.log)
        if store.applied >= end:
            raise Violation("beyond", f"the store has applied epoch {store.applied}, and {end - 1} is the last decided")
        if store.content != world.folded(store.applied + 1):
            raise Violation("content", f"at epoch {store.applied} the store holds {store.content}")
        last = {world.last_change}
        if pending is not None:
            last.add((world.folded(pending.epoch) or (NO_EPOCH,))[-1])
        if store.applied not in last and not world.went_back:
            raise Violation("position", f"the store is at epoch {store.applied}, not at one of {sorted(last)}")
        if pending is not None and not world.went_back and store.before(pending.epoch) != world.folded(pending.epoch):
            raise Violation("undo", f"epoch {pending.epoch} is not complete, and cannot be taken back")
        leader = world.leader
        if leader is not None and leader.does in ("begin", "prepare", "decide") and leader.content != world.folded(end):
            raise Violation("memory", f"epoch {end} runs on {leader.content} in memory, not on {world.folded(end)}")

    def is_goal(self, world: StateWorld) -> bool:
        """All epochs are complete, or a store that has gone back has stopped the pipeline."""
        stopped = world.leader is not None and world.leader.does == "stop"
        return (stopped and world.went_back) or world.completed == world.epochs - 1


@dataclass(frozen=True)
class StateScope:
    """How much may happen to a state beside what must."""

    state_faults: int = 2
    epochs: int = 3

    def run(self) -> Exploration:
        """Search all of it, until something is violated."""
        return Search(StateModel(self)).run()
