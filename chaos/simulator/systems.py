"""The systems behind the simulated sinks: what they hold prepared and committed, over all processes and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tpc.chaos.simulator.faults import Fault
from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.world import Invariant, World
from tpc.handles import Handle
from tpc.sink import GivenUp, Marker, Owner

Rows = tuple[int, ...]
OWNER = "the owner entry"


@dataclass(frozen=True)
class Traits:
    """How a kind of system behaves."""

    kind: str
    commits_first: bool = False
    owner_fenced: bool = True
    tells_epoch: bool = True
    """Whether its list of branches in doubt says their epoch."""
    lists_only_copies: bool = False
    """Whether what it lists as prepared is for certain not committed."""
    tells_loss: bool = True
    """Whether it can tell a lost branch from one that never was."""
    expires_after_s: float | None = None
    """How long a branch may stay prepared."""
    markers_expire: bool = False
    refuses: bool = False
    """Whether it may refuse a decided epoch."""
    one_act: bool = False
    """Whether it publishes all branches of an epoch in one act."""
    gathered: bool = False
    """Whether the driver writes one branch for all tasks."""


TABLE = Traits("table", lists_only_copies=True)
STREAM = Traits(
    "stream", commits_first=True, owner_fenced=False, tells_epoch=False, expires_after_s=900.0, markers_expire=True
)
DOCUMENTS = Traits("documents", refuses=True, tells_loss=False)
FILES = Traits("files", one_act=True)
TALLIES = Traits("tallies", refuses=True, gathered=True)

ALL_TRAITS = (TABLE, STREAM, DOCUMENTS, FILES, TALLIES)


@dataclass
class System:
    """One system with what it holds for the pipeline."""

    world: World
    ledger: Ledger
    name: str
    traits: Traits
    prepared: dict[str, tuple[Handle, Rows, float]] = field(default_factory=dict)
    """Handle -> the handle, its rows, and when it was prepared."""
    visible: dict[str, tuple[Handle, Rows]] = field(default_factory=dict)
    markers: dict[str, Handle] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Branches that were prepared and never will be visible, on its own record."""
    mislaid: dict[str, Handle] = field(default_factory=dict)
    """The markers that it has lost."""
    owner: Owner | None = None
    written: dict[str, int] = field(default_factory=dict)
    """In which order its markers, by handle, and its owner entry (`OWNER`) were written."""
    writes: int = 0
    down_until_s: float = 0.0
    refused_epochs: set[int] = field(default_factory=set)
    contradicted: set[str] = field(default_factory=set)
    """Branches of which it cannot tell their outcome."""
    before: dict[str, Handle] | None = None
    """Its markers as they were before it went back; None when it has not."""

    def prepare(self, handle: Handle, rows: Rows) -> None:
        """A task's branch becomes durable and stays invisible."""
        name = str(handle)
        if name in self.gone or name in self.visible:
            raise self.world.violated(Invariant.EXACTLY_ONCE, f"{name} is prepared twice")
        self.prepared[name] = (handle, rows, self.world.now_s)

    def expire(self) -> None:
        """Branches that were prepared for too long are gone."""
        limit_s = self.traits.expires_after_s
        if limit_s is None:
            return
        for name, (_, _, since_s) in list(self.prepared.items()):
            if self.world.now_s - since_s > limit_s:
                self.world.tell(f"  {name} has expired")
                self.lose(name)

    def lose(self, name: str) -> None:
        """A prepared branch is gone, by nobody's order."""
        del self.prepared[name]
        self.gone.add(name)

    def commit(self, names: Sequence[str]) -> None:
        """Make prepared branches visible; with `one_act` only all of them together."""
        self.expire()
        there = [name for name in names if name in self.prepared]
        if self.traits.one_act and len(there) + sum(name in self.visible for name in names) < len(names):
            return
        for name in there:
            handle, rows, _ = self.prepared[name]
            self.ledger.on_committed(handle)
            del self.prepared[name]
            self.visible[name] = (handle, rows)
            self.markers[name] = handle
            self._wrote(name)

    def abort(self, names: Sequence[str], by_generation: int | None) -> None:
        """Undo prepared branches; what is visible stays."""
        for name in names:
            found = self.prepared.get(name)
            for handle in [handle for handle in self.unbooked() if str(handle) == name]:
                self.ledger.on_aborted(handle, by_generation)
                del self.visible[name]
            if found is not None:
                self.ledger.on_aborted(found[0], by_generation)
                self.lose(name)

    def give_up(self, name: str, by_generation: int | None) -> GivenUp:
        """End a decided branch that an operator has given up."""
        self.expire()
        self.abort([name], by_generation)
        if name in self.markers or (name in self.visible and not self.traits.markers_expire):
            return GivenUp.COMMITTED
        return GivenUp.UNDONE if name in self.gone else GivenUp.NOT_KNOWN

    def lose_books(self) -> None:
        """What tells committed branches is gone; their rows stay. Not where a disk has lied too: then nobody knows."""
        plan = self.world.plan
        if not self.traits.one_act or Fault.LOG_DAMAGED in {*plan.waiting, *plan.fired}:
            return
        if self.world.strikes(Fault.BOOKS_LOST, self.name):
            self.world.tell(f"  {self.name} has lost its manifests")
            self.mislaid, self.markers = {**self.mislaid, **self.markers}, {}

    def put_books_back(self) -> bool:
        """An operator restores them; whether they were ever lost."""
        self.markers, self.mislaid = {**self.mislaid, **self.markers}, {}
        return self.traits.one_act and self.world.plan.fired[Fault.BOOKS_LOST] > 0

    def unbooked(self) -> list[Handle]:
        """Visible branches that nothing settles any more, as far as this system's books show."""
        newest = self.newest()
        settled = -1 if newest is None else newest.epoch
        visible = [handle for handle, _ in self.visible.values()] if self.mislaid else []
        return [handle for handle in visible if handle.epoch >= settled and str(handle) not in self.markers]

    def newest(self) -> Marker | None:
        """The newest epoch it shows."""
        if not self.markers:
            return None
        handle = max(self.markers.values(), key=lambda handle: (handle.epoch, handle.generation))
        return Marker(handle.epoch, handle)

    def forget_markers(self, before_epoch: int) -> None:
        """Markers of older epochs are pruned, once this one has markers of its own."""
        self.markers = {name: handle for name, handle in self.markers.items() if handle.epoch >= before_epoch}

    def own(self, owner: Owner) -> None:
        """The owner entry is written."""
        self.owner = owner
        self._wrote(OWNER)

    def _wrote(self, name: str) -> None:
        self.writes += 1
        self.written[name] = self.writes

    def forget_oldest(self) -> None:
        """Markers and the owner entry that were written first are forgotten, by their age: some of them, or all."""
        there = sorted(
            [*self.markers, *([OWNER] if self.owner is not None else [])], key=lambda name: self.written[name]
        )
        for name in there[: self.world.random.randint(1, len(there))] if there else ():
            if name == OWNER:
                self.owner = None
            else:
                del self.markers[name]

    def may_go_back(self) -> bool:
        """Whether it shows an epoch, none of its own was given up, and going back is not the same as to forget."""
        newest = self.newest()
        if newest is None or self.before is not None or any(sink == self.name for _, sink in self.ledger.resolved):
            return False
        return newest.epoch > 0 or not self.traits.markers_expire

    def go_back(self, under_generation: int) -> None:
        """It shows the epoch before its newest one: a backup was restored, a replica promoted."""
        self.before = self.markers
        shown = {name: replace(handle, epoch=handle.epoch - 1) for name, handle in self.markers.items()}
        self.markers = {name: handle for name, handle in shown.items() if handle.epoch >= 0}
        self.ledger.went_back[self.name] = under_generation

    def come_back(self) -> None:
        """An operator brings it to where it was."""
        if self.before is not None:
            self.markers = {**self.markers, **self.before}
            self.before = None
            del self.ledger.went_back[self.name]

    def rows(self) -> list[tuple[int, int]]:
        """Every visible row with the epoch of its branch."""
        return [(row, handle.epoch) for handle, rows in self.visible.values() for row in rows]
