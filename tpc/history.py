"""What the records of a log mean together: the current generation, what is decided, what is complete.

`tpc.fold` makes a `History` from the records in the order of their slots. It is the only source of the state of a
pipeline, for a starting coordinator as for `tpc status`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from tpc.ancestors import Ancestor
from tpc.handles import Handle, PipelineId
from tpc.json import JSONObject
from tpc.manifest import Manifest
from tpc.schemas import Columns
from tpc.sink import GivenUp
from tpc.source_records import Inputs, inputs_to_json

OWNERS_KEPT = 8
"""How many generations are remembered as owners before the last one that is known to own every sink.

In a sink that cannot compare and set, a fenced coordinator may still write its owner entry late.
"""


class Action(str, Enum):
    """What an operator may decide about an epoch."""

    ACCEPT_LOSS = "accept-loss"
    """The sink's branches of the epoch are given up: those that are not committed are undone."""
    MARK_COMMITTED = "mark-committed"
    """The operator has put the rows there by hand; the branches are given up in the same way."""
    ACCEPT_STATE = "accept-state"
    """A replay that made other rows is accepted: the state stores go on from it."""


@dataclass(frozen=True)
class Resolution:
    """An operator's recorded decision; `sink` is empty for `ACCEPT_STATE`.

    `ends` is known when the epoch is complete: how many of the sink's branches ended how.
    """

    epoch: int
    sink: str
    action: Action
    reason: str
    operator: str
    ends: Mapping[GivenUp, int] = field(default_factory=dict)

    def to_json(self) -> JSONObject:
        """The body of a resolution record."""
        return {
            "epoch": self.epoch,
            "sink": self.sink,
            "action": self.action.value,
            "reason": self.reason,
            "operator": self.operator,
            "ends": {end.value: count for end, count in sorted(self.ends.items())},
        }

    @classmethod
    def from_json(cls, value: JSONObject) -> Resolution:
        """The inverse of `to_json`."""
        ends = {GivenUp(end): count for end, count in value["ends"].items()}
        return cls(value["epoch"], value["sink"], Action(value["action"]), value["reason"], value["operator"], ends)


def with_ends(
    resolutions: tuple[Resolution, ...], epoch: int, given_up: Mapping[str, GivenUp]
) -> tuple[Resolution, ...]:
    """`resolutions` with the outcome of the branches (by handle) that those about `epoch` have given up."""
    counts: dict[str, Counter[GivenUp]] = {}
    for handle, end in given_up.items():
        counts.setdefault(Handle.parse(handle).sink, Counter())[end] += 1
    return tuple(
        replace(r, ends=dict(counts[r.sink])) if r.epoch == epoch and r.sink in counts else r for r in resolutions
    )


def given_up_in_words(ends: Mapping[GivenUp, int]) -> str:
    """The outcome of given-up branches, as a text for people."""
    words = {
        GivenUp.COMMITTED: "{} had been committed before and stay so",
        GivenUp.UNDONE: "{} are undone",
        GivenUp.NOT_KNOWN: "of {} the outcome is unknown: look whether their rows are there",
    }
    told = [words[end].format(ends[end]) for end in words if ends.get(end)]
    return f"of the branches that were given up {', '.join(told)}"


@dataclass(frozen=True)
class Removal:
    """A sink taken out of the pipeline: the epoch of its marker, and the generations that may have owned it last.

    `after` is the last epoch that was decided with it. The generations are kept as long as the log, since the sink may
    be added again at any later generation.
    """

    marker: int | None
    owners: Mapping[int, str]
    after: int | None

    def to_json(self) -> JSONObject:
        """The form in a removal record, and in each generation record after that."""
        owners = {str(generation): nonce for generation, nonce in self.owners.items()}
        return {"marker": self.marker, "owners": owners, "after": self.after}

    @classmethod
    def from_json(cls, value: JSONObject) -> Removal:
        """The inverse of `to_json`."""
        owners = {int(generation): nonce for generation, nonce in value["owners"].items()}
        return cls(value["marker"], owners, value["after"])


@dataclass(frozen=True)
class DamagedSlot:
    """A slot at the end of the log whose bytes are no whole record; `digest` is their SHA-256 in hexadecimal."""

    slot: int
    digest: str
    what: str = ""


@dataclass(frozen=True)
class History:
    """The state of a pipeline according to its log. Of epochs whose records are pruned only the numbers are left."""

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
    """Slot of every generation record, with the last complete epoch before it: there the log may be cut."""
    owners: Mapping[int, str] = field(default_factory=dict)
    """Generation -> nonce of its record, for every generation that an owner entry in a sink may name."""
    owning_generation: int = 0
    """The newest generation that is known to own every sink: it decided or completed something."""
    damaged: tuple[DamagedSlot, ...] = ()
    """The end of the log that cannot be read; the next generation record voids it, or the start is refused."""
    voids: Mapping[int, str] = field(default_factory=dict)
    """Damaged slots that a generation record has voided, with the digest of their bytes; they count as empty."""
    schemas: Mapping[str, Columns] = field(default_factory=dict)
    """Sink -> the columns that its rows must have: those of the last start, or what an operator has accepted."""
    inputs: Inputs | None = None
    """What the last start has read, or what an operator has accepted; None in a log of an older version."""
    removed: Mapping[str, Removal] = field(default_factory=dict)
    """Sinks taken out of the pipeline on the record."""
    moved_to: str | None = None
    """The place that the log was moved to; no record follows here."""
    savepoint: str | None = None
    """The id of the savepoint that it was moved into, if it was."""
    ancestors: tuple[Ancestor, ...] = ()
    """The pipelines that this one is a fork of, the nearest last."""

    @property
    def next_slot(self) -> int:
        """The slot of the next record. A damaged slot is not written again."""
        return (self.damaged[-1].slot if self.damaged else self.last_slot) + 1

    @property
    def next_generation(self) -> int:
        """The number of the next generation. Every damaged record may have been a generation record."""
        return self.generation + 1 + len(self.damaged)

    @property
    def pending(self) -> Manifest | None:
        """The decided epoch that has no complete record, with its repairs applied; at most one exists."""
        if self.last_intent is None or self.last_intent == self.last_complete:
            return None
        return self.manifests[self.last_intent]

    def resolution(self, epoch: int, sink: str) -> Resolution | None:
        """The last decision that gave up the branches of `sink` in `epoch`; accepting a state gives up none."""
        decided = [r for r in self.resolutions if r.action is not Action.ACCEPT_STATE]
        found = [r for r in decided if (r.epoch, r.sink) == (epoch, sink)]
        return found[-1] if found else None

    def last_epoch_of(self, sink: str, *, before: int | None = None) -> int | None:
        """The newest decided epoch (below `before`) of which `sink` has a committed branch, or will have.

        The sink's newest marker must be of this epoch. None if the sink never had a branch. An epoch that was given up
        counts if one of its branches was committed before that.
        """
        for epoch in sorted(self.manifests, reverse=True):
            part = self.manifests[epoch].sinks.get(sink)
            if part is None or (before is not None and epoch >= before):
                continue
            resolution = self.resolution(epoch, sink)
            if part.branches and (resolution is None or GivenUp.COMMITTED in resolution.ends):
                return epoch
            return part.previous_epoch
        return self.markers.get(sink)

    @property
    def last_owners(self) -> Mapping[int, str]:
        """Those of `owners` that the owner entry of a sink may name from now on."""
        return {g: nonce for g, nonce in self.owners.items() if g >= self.owning_generation - OWNERS_KEPT}

    def carried(self, sinks: Iterable[str], keep_epochs: int) -> JSONObject:
        """What a generation record carries of the records before it, so that they can be pruned."""
        before = None if self.pending is None else self.pending.epoch
        decided = {name for manifest in self.manifests.values() for name in manifest.sinks}
        names = sorted({*sinks, *self.markers, *decided})
        floor = self.prune_floor(keep_epochs)
        voids = {**self.voids, **{damaged.slot: damaged.digest for damaged in self.damaged}}
        return {
            "floor": floor,
            "markers": {name: self.last_epoch_of(name, before=before) for name in names},
            "owners": {str(generation): nonce for generation, nonce in self.last_owners.items()},
            "owning_generation": self.owning_generation,
            "voids": {str(slot): digest for slot, digest in voids.items() if slot >= floor},
            "removed": {sink: removal.to_json() for sink, removal in self.removed.items()},
            "schemas": dict(self.schemas),
            "sources": inputs_to_json(self.inputs),
            "ancestors": [ancestor.to_json() for ancestor in self.ancestors],
        }

    def prune_floor(self, keep_epochs: int) -> int:
        """The floor that keeps at least `keep_epochs` epochs: the slot of a generation record, or today's floor."""
        kept_from = -1 if self.last_complete is None else self.last_complete - keep_epochs
        slots = [slot for slot, complete in self.generation_slots if complete is not None and complete <= kept_from]
        return max([self.floor, *slots])

    def trimmed(self) -> History:
        """This history without what is below its floor, so that its size does not grow with the epochs."""
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
