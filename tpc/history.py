"""What the records of a log mean together: who leads, what is decided, what is complete.

`History` is a fold over the records in the order of their slots. Reading it is the only way in which anybody,
the coordinator at start as much as `tpc status`, learns the state of a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from tpc.errors import CorruptionError
from tpc.handles import PipelineId
from tpc.json import JSONObject
from tpc.manifest import Branch, Manifest
from tpc.records import Record, RecordKind


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


def fold(records: Iterable[Record]) -> History:
    """The history that `records`, in the order of their slots and from the floor on, tell.

    Raises `CorruptionError` when they contradict each other: a gap, a complete without its intent, an intent that
    skips an epoch or belongs to another pipeline.
    """
    history = History()
    for record in records:
        history = advanced(history, record)
    return history


def advanced(history: History, record: Record) -> History:
    """`history` with one more record. Raises `CorruptionError` when the record contradicts it."""
    return _FOLDS[record.kind](_placed(history, record), record)


def _placed(history: History, record: Record) -> History:
    if not history.last_slot and record.kind is not RecordKind.GENERATION:
        raise _contradiction(record, "a log begins with a generation record")
    if history.last_slot and record.slot != history.last_slot + 1:
        raise CorruptionError(
            f"the log has a gap: slot {record.slot} follows slot {history.last_slot}",
            remedy="a record above the floor is missing: restore the log's files from a backup or a mirror.",
        )
    return replace(history, last_slot=record.slot, floor=max(history.floor, record.body.get("floor", 1)))


def _generation(history: History, record: Record) -> History:
    body = record.body
    pipeline = PipelineId(body["pipeline"], body["incarnation"])
    if history.pipeline not in (None, pipeline):
        raise _contradiction(record, f"it belongs to pipeline {pipeline}, the log to {history.pipeline}")
    if body["generation"] <= history.generation:
        raise _contradiction(record, f"generation {body['generation']} follows {history.generation}")
    if history.pipeline is None:
        history = _begun(history, body)
    return replace(
        history,
        pipeline=pipeline,
        generation=body["generation"],
        query_id=body.get("query_id") or history.query_id,
        sinks=body["sinks"],
        markers=body["markers"],
        generation_slots=(*history.generation_slots, (record.slot, body["last_complete"])),
    )


def _begun(history: History, body: JSONObject) -> History:
    """The first record of a log whose earlier ones are pruned stands for them."""
    last_complete, pending = body["last_complete"], body["pending"]
    resolutions = tuple(Resolution.from_json(resolution) for resolution in body["resolutions"])
    history = replace(history, last_complete=last_complete, last_intent=last_complete, resolutions=resolutions)
    return history if pending is None else _decided(history, Manifest.from_json(pending))


def _intent(history: History, record: Record) -> History:
    manifest = Manifest.from_json(record.body)
    if history.pipeline not in (None, manifest.pipeline):
        raise _contradiction(record, f"it belongs to pipeline {manifest.pipeline}, the log to {history.pipeline}")
    if history.pending is not None:
        raise _contradiction(record, f"epoch {manifest.epoch} is decided before {history.last_intent} is complete")
    if history.last_intent is not None and manifest.epoch != history.last_intent + 1:
        raise _contradiction(record, f"epoch {manifest.epoch} is decided after epoch {history.last_intent}")
    return _decided(history, manifest)


def _decided(history: History, manifest: Manifest) -> History:
    return replace(history, last_intent=manifest.epoch, manifests={**history.manifests, manifest.epoch: manifest})


def _repair(history: History, record: Record) -> History:
    pending = history.pending
    if pending is None or pending.epoch != record.body["epoch"]:
        raise _contradiction(record, f"it repairs epoch {record.body['epoch']}, which is not pending")
    replacements = {old: Branch.from_json(new) for old, new in record.body["replacements"].items()}
    return _decided(history, pending.repaired(replacements))


def _complete(history: History, record: Record) -> History:
    epoch = record.body["epoch"]
    if epoch != history.last_intent:
        raise _contradiction(record, f"epoch {epoch} is complete, the last decided one is {history.last_intent}")
    return replace(
        history,
        last_complete=epoch,
        completed={**history.completed, epoch: record.body},
    )


def _resolution(history: History, record: Record) -> History:
    return replace(history, resolutions=(*history.resolutions, Resolution.from_json(record.body)))


def _contradiction(record: Record, what: str) -> CorruptionError:
    return CorruptionError(
        f"slot {record.slot} of the log ({record.kind.value}) contradicts the slots before it: {what}",
        remedy="two logs were mixed or a file was changed by hand: restore the log from a backup or a mirror.",
    )


_FOLDS: Mapping[RecordKind, Callable[[History, Record], History]] = {
    RecordKind.GENERATION: _generation,
    RecordKind.INTENT: _intent,
    RecordKind.REPAIR: _repair,
    RecordKind.COMPLETE: _complete,
    RecordKind.RESOLUTION: _resolution,
}
