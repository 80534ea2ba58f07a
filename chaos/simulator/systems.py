"""The systems behind the simulated sinks: what they hold prepared and committed, over all processes and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tpc.chaos.simulator.ledger import Ledger
from tpc.chaos.simulator.world import Invariant, World
from tpc.handles import Handle
from tpc.sink import Marker, Owner

Rows = tuple[int, ...]


@dataclass(frozen=True)
class Traits:
    """How a kind of system behaves."""

    kind: str
    commits_first: bool = False
    owner_fenced: bool = True
    tells_epoch: bool = True
    """Whether its list of branches in doubt says their epoch."""
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


TABLE = Traits("table")
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
    owner: Owner | None = None
    down_until_s: float = 0.0
    refused_epochs: set[int] = field(default_factory=set)
    contradicted: set[str] = field(default_factory=set)
    """Branches of which it cannot tell what became of them."""

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

    def abort(self, names: Sequence[str], by_generation: int | None) -> None:
        """Undo prepared branches; what is visible stays."""
        for name in names:
            found = self.prepared.get(name)
            if found is not None:
                self.ledger.on_aborted(found[0], by_generation)
                self.lose(name)

    def newest(self) -> Marker | None:
        """The newest epoch it shows."""
        if not self.markers:
            return None
        handle = max(self.markers.values(), key=lambda handle: (handle.epoch, handle.generation))
        return Marker(handle.epoch, handle)

    def forget_markers(self, before_epoch: int) -> None:
        """Markers of older epochs are pruned, never the newest."""
        newest = self.newest()
        self.markers = {
            name: handle
            for name, handle in self.markers.items()
            if handle.epoch >= before_epoch or (newest is not None and handle.epoch == newest.epoch)
        }

    def rows(self) -> list[tuple[int, int]]:
        """Every visible row with the epoch of its branch."""
        return [(row, handle.epoch) for handle, rows in self.visible.values() for row in rows]
