"""Computes the history of a log from its records: a fold over them, in the order of their slots.

A record that contradicts the ones before it raises, and nothing is changed. `records.py` defines the bytes of a record,
`history.py` what the result means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from tpc.ancestors import Ancestor
from tpc.errors import CorruptionError
from tpc.handles import PipelineId
from tpc.history import DamagedSlot, History, Removal, Resolution, with_ends
from tpc.json import JSONObject
from tpc.manifest import Branch, Manifest
from tpc.records import Record, RecordKind
from tpc.schemas import columns_from_json
from tpc.sink import GivenUp
from tpc.source_records import inputs_from_json, with_ids


def fold(records: Iterable[Record], damaged: Sequence[DamagedSlot] = ()) -> History:
    """The history that results from `records`, given in the order of their slots and from the floor on.

    `damaged` are the slots after the last whole record that hold damaged ones. Raises `CorruptionError` if the records
    contradict each other: a gap, a complete record without its intent, an intent that skips an epoch or belongs to
    another pipeline.
    """
    history = History()
    for record in records:
        history = advanced(history, record)
    last = history.last_slot
    for slot in damaged:
        if last and slot.slot != last + 1:
            raise _gap(slot.slot, last)
        last = slot.slot
    return replace(history, damaged=tuple(damaged))


def beginning(records: list[Record]) -> list[Record]:
    """`records` without those that an interrupted pruning has left at the beginning.

    A generation record carries all that is needed of the records below it. So records below a gap that ends at a
    generation record are not part of the log, and such a gap is not an error. Other gaps stay, for `fold` to refuse.
    """
    start = 0
    for index, record in enumerate(records):
        if record.kind is not RecordKind.GENERATION or index == 0:
            continue
        missing = range(records[index - 1].slot + 1, record.slot)
        if records[start].kind is not RecordKind.GENERATION or any(slot not in _voids(record) for slot in missing):
            start = index
    return records[start:]


def advanced(history: History, record: Record) -> History:
    """`history` with one more record. Raises `CorruptionError` when the record contradicts it."""
    return _FOLDS[record.kind](_placed(history, record), record)


def _placed(history: History, record: Record) -> History:
    if not history.last_slot and record.kind is not RecordKind.GENERATION:
        raise _contradiction(record, "a log begins with a generation record")
    if history.moved_to is not None:
        raise _contradiction(record, f"the log was moved to {history.moved_to}")
    voids = _voids(record) if record.kind is RecordKind.GENERATION else {}
    if history.last_slot and any(slot not in voids for slot in range(history.last_slot + 1, record.slot)):
        raise _gap(record.slot, history.last_slot)
    return replace(
        history,
        last_slot=record.slot,
        floor=max(history.floor, record.body.get("floor", 1)),
        damaged=(),
        voids={**history.voids, **voids},
    )


def _voids(record: Record) -> dict[int, str]:
    return {int(slot): digest for slot, digest in record.body["voids"].items()}


def _gap(slot: int, last: int) -> CorruptionError:
    return CorruptionError(
        f"the log has a gap: slot {slot} follows slot {last}",
        remedy="a record above the floor is missing: restore the log's files from a backup or a mirror.",
    )


def _generation(history: History, record: Record) -> History:
    body = record.body
    pipeline = PipelineId(body["pipeline"], body["incarnation"])
    if history.pipeline not in (None, pipeline):
        raise _contradiction(record, f"it belongs to pipeline {pipeline}, the log to {history.pipeline}")
    if body["generation"] <= history.generation:
        raise _contradiction(record, f"generation {body['generation']} follows {history.generation}")
    if history.pipeline is None:
        history = _begun(history, record)
    return replace(
        history,
        pipeline=pipeline,
        generation=body["generation"],
        query_id=body.get("query_id") or history.query_id,
        sinks=body["sinks"],
        markers=body["markers"],
        generation_slots=(*history.generation_slots, (record.slot, body["last_complete"])),
        owners={**_owners(body), body["generation"]: record.nonce},
        owning_generation=max(history.owning_generation, body["owning_generation"]),
        removed={sink: Removal.from_json(removal) for sink, removal in body["removed"].items()},
        schemas={sink: columns_from_json(columns) for sink, columns in body["schemas"].items()},
        inputs=inputs_from_json(body.get("sources")),
        ancestors=tuple(Ancestor.from_json(ancestor) for ancestor in body.get("ancestors", ())),
    )


def _owners(body: JSONObject) -> dict[int, str]:
    return {int(generation): nonce for generation, nonce in body["owners"].items()}


def _begun(history: History, record: Record) -> History:
    """Take over what the first record carries of earlier records, which are pruned."""
    body = record.body
    last_complete, pending = body["last_complete"], body["pending"]
    resolutions = tuple(Resolution.from_json(resolution) for resolution in body["resolutions"])
    history = replace(history, last_complete=last_complete, last_intent=last_complete, resolutions=resolutions)
    if pending is None:
        return history
    manifest = Manifest.from_json(pending)
    if manifest.pipeline != (pipeline := PipelineId(body["pipeline"], body["incarnation"])):
        raise _contradiction(record, f"it belongs to pipeline {pipeline}, its pending epoch to {manifest.pipeline}")
    return _decided(history, record, manifest)


def _intent(history: History, record: Record) -> History:
    manifest = Manifest.from_json(record.body)
    if history.pipeline not in (None, manifest.pipeline):
        raise _contradiction(record, f"it belongs to pipeline {manifest.pipeline}, the log to {history.pipeline}")
    if history.pending is not None:
        raise _contradiction(record, f"epoch {manifest.epoch} is decided before {history.last_intent} is complete")
    if history.last_intent is not None and manifest.epoch != history.last_intent + 1:
        raise _contradiction(record, f"epoch {manifest.epoch} is decided after epoch {history.last_intent}")
    return _decided(_owning(history, manifest.generation), record, manifest)


def _owning(history: History, generation: int) -> History:
    """Note the owner: a coordinator decides and completes only after it owns every sink."""
    return replace(history, owning_generation=max(history.owning_generation, generation))


def _decided(history: History, record: Record, manifest: Manifest) -> History:
    for sink, branch in manifest.branches():
        handle = branch.committable.handle
        # Committed as it stands, it would publish what another pipeline or epoch has only prepared.
        if (handle.pipeline, handle.sink, handle.epoch) != (manifest.pipeline, sink, manifest.epoch):
            named = f"epoch {manifest.epoch} of pipeline {manifest.pipeline} names {handle} as a branch of sink {sink}"
            raise _contradiction(record, f"{named}, which is not one of that epoch")
    inputs = None if history.inputs is None else with_ids(history.inputs, manifest.source_ids)
    manifests = {**history.manifests, manifest.epoch: manifest}
    return replace(history, last_intent=manifest.epoch, manifests=manifests, inputs=inputs)


def _repair(history: History, record: Record) -> History:
    pending = history.pending
    if pending is None or pending.epoch != record.body["epoch"]:
        raise _contradiction(record, f"it repairs epoch {record.body['epoch']}, which is not pending")
    replacements = {old: Branch.from_json(new) for old, new in record.body["replacements"].items()}
    return _decided(_owning(history, record.body["generation"]), record, pending.repaired(replacements))


def _complete(history: History, record: Record) -> History:
    epoch = record.body["epoch"]
    if epoch != history.last_intent:
        raise _contradiction(record, f"epoch {epoch} is complete, the last decided one is {history.last_intent}")
    given_up = {handle: GivenUp(end) for handle, end in record.body.get("given_up", {}).items()}
    return replace(
        _owning(history, record.body["generation"]),
        last_complete=epoch,
        completed={**history.completed, epoch: record.body},
        resolutions=with_ends(history.resolutions, epoch, given_up),
    )


def _resolution(history: History, record: Record) -> History:
    return replace(history, resolutions=(*history.resolutions, Resolution.from_json(record.body)))


def _removal(history: History, record: Record) -> History:
    name = record.body["sink"]
    pending = history.pending
    if pending is not None and pending.waits_for(name) and history.resolution(pending.epoch, name) is None:
        raise _contradiction(record, f"it removes sink {name}, which decided epoch {pending.epoch} waits for")
    sinks = {sink: identity for sink, identity in history.sinks.items() if sink != name}
    return replace(history, sinks=sinks, removed={**history.removed, name: Removal.from_json(record.body)})


def _acceptance(history: History, record: Record) -> History:
    if "sources" in record.body:
        return replace(history, inputs=inputs_from_json(record.body["sources"]))
    name, columns = record.body["sink"], record.body["columns"]
    others = {sink: known for sink, known in history.schemas.items() if sink != name}
    return replace(history, schemas=others if columns is None else {**others, name: columns_from_json(columns)})


def _moved(history: History, record: Record) -> History:
    return replace(history, moved_to=record.body["to"], savepoint=record.body.get("savepoint"))


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
    RecordKind.REMOVAL: _removal,
    RecordKind.ACCEPTANCE: _acceptance,
    RecordKind.MOVED: _moved,
}
