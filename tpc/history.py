"""What the records of a log mean together: who leads, what is decided, what is complete.

`History` is what `tpc.fold` makes of the records in the order of their slots. Reading it is the only way in which
anybody, the coordinator at start as much as `tpc status`, learns the state of a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from tpc.handles import PipelineId
from tpc.json import JSONObject
from tpc.manifest import Manifest

OWNERS_KEPT = 8
"""How many terms before the last one that is known to own every sink are remembered as owners.

A fenced coordinator may write its entry late where a sink cannot compare and set.
"""


class Action(str, Enum):
    """What an operator may decide about an epoch."""

    ACCEPT_LOSS = "accept-loss"
    """The sink's branches of the epoch are given up; they are aborted."""
    MARK_COMMITTED = "mark-committed"
    """The operator has put the rows there by hand; the sink's branches of the epoch are aborted."""
    ACCEPT_STATE = "accept-state"
    """A replay that made other rows is accepted: the state stores go on from it."""


@dataclass(frozen=True)
class Resolution:
    """An operator's recorded decision; `sink` is empty for `ACCEPT_STATE`."""

    epoch: int
    sink: str
    action: Action
    reason: str
    operator: str

    def to_json(self) -> JSONObject:
        """The body of a resolution record."""
        return {
            "epoch": self.epoch,
            "sink": self.sink,
            "action": self.action.value,
            "reason": self.reason,
            "operator": self.operator,
        }

    @classmethod
    def from_json(cls, value: JSONObject) -> Resolution:
        """The inverse of `to_json`."""
        return cls(value["epoch"], value["sink"], Action(value["action"]), value["reason"], value["operator"])


@dataclass(frozen=True)
class DamagedSlot:
    """A slot at the end of the log whose bytes are no whole record; `digest` is their SHA-256 in hexadecimal."""

    slot: int
    digest: str
    what: str = ""


@dataclass(frozen=True)
class History:
    """The state of a pipeline as its log tells it. Epochs whose records are pruned are only in the numbers."""

    pipeline: PipelineId | None = None
    generation: int = 0
    last_slot: int = 0
    floor: int = 1
    query_id: str | None = None
    last_intent: int | None = None
    last_complete: int | None = None
    manifests: Mapping[int, Manifest] = field(default_factory=dict)
    completed: Mapping[int, JSONObject] = field(default_factory=dict)
    resolutions: tuple[Resolution, ...] = ()
    sinks: Mapping[str, str] = field(default_factory=dict)
    markers: Mapping[str, int | None] = field(default_factory=dict)
    generation_slots: tuple[tuple[int, int | None], ...] = ()
    """Slot of every generation record with the last complete epoch before it: where the log may be cut."""
    owners: Mapping[int, str] = field(default_factory=dict)
    """Generation -> nonce of its record, for every term that an owner entry in a sink may name."""
    owning_generation: int = 0
    """The newest generation that is known to own every sink: it decided or completed something."""
    damaged: tuple[DamagedSlot, ...] = ()
    """The end of the log that cannot be read; the next generation record voids it, or the start is refused."""
    voids: Mapping[int, str] = field(default_factory=dict)
    """Damaged slots that a generation record has voided, with the digest of their bytes: they never were."""
    removed: Mapping[str, int | None] = field(default_factory=dict)
    """Sinks taken out of the pipeline after a sweep of them, with the epoch that their marker shows."""

    @property
    def next_slot(self) -> int:
        """Where the next record goes. A damaged slot is not written again."""
        return (self.damaged[-1].slot if self.damaged else self.last_slot) + 1

    @property
    def next_generation(self) -> int:
        """The number of the next term. Every damaged record may have been a term of its own."""
        return self.generation + 1 + len(self.damaged)

    @property
    def pending(self) -> Manifest | None:
        """The decided epoch that has no complete record, with its repairs applied; at most one exists."""
        if self.last_intent is None or self.last_intent == self.last_complete:
            return None
        return self.manifests[self.last_intent]

    def resolution(self, epoch: int, sink: str) -> Resolution | None:
        """The last decision recorded for `sink` in `epoch`."""
        found = [r for r in self.resolutions if (r.epoch, r.sink) == (epoch, sink)]
        return found[-1] if found else None

    def last_epoch_of(self, sink: str, *, before: int | None = None) -> int | None:
        """The newest decided epoch (below `before`) in which `sink` has branches that were not given up.

        This is what the sink's newest marker must show. None when the sink never had a branch.
        """
        for epoch in sorted(self.manifests, reverse=True):
            part = self.manifests[epoch].sinks.get(sink)
            if part is None or (before is not None and epoch >= before):
                continue
            if part.branches and self.resolution(epoch, sink) is None:
                return epoch
            if not part.branches:
                return part.previous_epoch
        return self.markers.get(sink)

    def carried(self, sinks: Iterable[str], keep_epochs: int) -> JSONObject:
        """What a generation record takes along from the records before it, which may be pruned then."""
        before = None if self.pending is None else self.pending.epoch
        decided = {name for manifest in self.manifests.values() for name in manifest.sinks}
        names = sorted({*sinks, *self.markers, *decided})
        floor = self.cut(keep_epochs)
        voids = {**self.voids, **{damaged.slot: damaged.digest for damaged in self.damaged}}
        return {
            "floor": floor,
            "markers": {name: self.last_epoch_of(name, before=before) for name in names},
            "owners": {str(g): n for g, n in self.owners.items() if g >= self.owning_generation - OWNERS_KEPT},
            "owning_generation": self.owning_generation,
            "voids": {str(slot): digest for slot, digest in voids.items() if slot >= floor},
            "removed": dict(self.removed),
        }

    def cut(self, keep_epochs: int) -> int:
        """The floor that keeps at least `keep_epochs` epochs: the slot of a generation record, or today's floor."""
        kept_from = -1 if self.last_complete is None else self.last_complete - keep_epochs
        slots = [slot for slot, complete in self.generation_slots if complete is not None and complete <= kept_from]
        return max([self.floor, *slots])

    def trimmed(self) -> History:
        """This history without what lies below its floor, so that its size does not grow with the epochs."""
        cuts = tuple(cut for cut in self.generation_slots if cut[0] >= self.floor)
        oldest = cuts[0][1] if cuts else None
        if oldest is None:
            return self
        return replace(
            self,
            generation_slots=cuts,
            manifests={epoch: m for epoch, m in self.manifests.items() if epoch > oldest},
            completed={epoch: body for epoch, body in self.completed.items() if epoch > oldest},
        )
