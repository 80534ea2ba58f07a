"""The newest records of a log, and those about one epoch, without reading the rest: for who watches a log.

The work is bounded however long the log is. A coordinator reads all of it (`journal`); what is wrong further down is
for `tpc log check` to find. A window begins at a generation record or at an intent, since an intent says that every
epoch before it is complete. Puts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.journal import MARK_SLOT
from tpc.errors import ConfigurationError, CorruptionError, TransientError
from tpc.fold import advanced
from tpc.history import DamagedSlot, History
from tpc.manifest import Manifest
from tpc.records import DamagedRecordError, Record, RecordKind, decode, digest

SLOTS_MAX = 600
"""How many slots are read at once at most: more than the records of the 200 epochs after which a term is renewed."""
AFTER_INTENT_MAX = 100
"""How many slots after its intent are looked at for what else is said of an epoch."""
ATTEMPTS = 3
_BEGINS = (RecordKind.GENERATION, RecordKind.INTENT)


@dataclass(frozen=True)
class Window:
    """Records that follow each other, and the slots after them that hold none; the last slot with its bytes."""

    records: tuple[Record, ...]
    damaged: tuple[DamagedSlot, ...]
    last_slot: int
    last_bytes: bytes

    @cached_property
    def history(self) -> History:
        """What these records tell; of what lies before them only numbers. Raises `CorruptionError`."""
        history = _before(self.records[0]) if self.records else History()
        for record in self.records:
            history = advanced(history, record)
        return replace(history, damaged=self.damaged)


def newest(log: Log, epochs: int) -> Window | None:
    """The newest records, with at least `epochs` epochs where there are so many; None when the log holds nothing.

    Goes back to the generation record before them, if that is among the last `SLOTS_MAX` slots.
    """
    for _ in range(ATTEMPTS):
        slots = log.slots()
        if not slots:
            return None
        if slots[0] == MARK_SLOT:
            raise ConfigurationError(
                f"the log at {log.describe()} is half a log: an import into it has not ended",
                remedy="repeat what was interrupted: `tpc log import`, `tpc restore` or `tpc adopt`.",
            )
        try:
            return _back(log, slots[-1], epochs, to_term=True)
        except KeyError:
            continue  # pruned between the two looks
    raise TransientError(
        f"the log at {log.describe()} lacks slots that it lists or needs",
        remedy="`tpc log check` says which, and what a start would do.",
    )


def followed(log: Log, window: Window, epochs: int) -> Window:
    """`window` with what was put since. Raises what `Log.goes_on` raises, and `LogGoneError` when the log is empty."""
    if not log.goes_on(window.last_slot, window.last_bytes):
        return window
    records, data = list(window.records), window.last_bytes
    for slot in range(window.last_slot + 1, window.last_slot + 1 + SLOTS_MAX):
        try:
            put = log.read(slot)
        except KeyError:
            break
        record = None if window.damaged else _record_after(put, slot, data)
        if record is None:
            return _anew(log, window, epochs)
        records.append(record)
        data = put
    if len(records) == len(window.records):
        return window  # what was put is pruned already: the next look finds that this window is gone
    return Window(_trimmed(records, epochs), (), records[-1].slot, data)


def _anew(log: Log, window: Window, epochs: int) -> Window:
    found = newest(log, epochs)
    if found is None:
        raise log.gone(window.last_slot)
    return found


def _record_after(data: bytes, slot: int, before: bytes) -> Record | None:
    """The record in these bytes; None when they are none, or not put after those before."""
    try:
        record = decode(data, slot)
    except DamagedRecordError:
        return None
    return record if record.after == digest(before) else None


def before_epoch(log: Log, window: Window, epoch: int, epochs: int) -> Window | None:
    """The records of up to `epochs` epochs before `epoch`, its own intent last; None where the log does not hold it."""
    slot = slot_of(log, window, epoch)
    return None if slot is None else _back(log, min(slot + 1, window.last_slot), epochs + 1, to_term=False)


def about_epoch(log: Log, window: Window, epoch: int) -> Window | None:
    """The intent of `epoch` and what follows it, up to the next epoch's complete record; None as `before_epoch`."""
    first = slot_of(log, window, epoch)
    if first is None:
        return None
    records: list[Record] = []
    for slot in range(first, min(first + AFTER_INTENT_MAX, window.last_slot + 1)):
        try:
            data = log.read(slot)
            records.append(decode(data, slot))
        except DamagedRecordError:
            continue  # voided by a record after it, or at the end
        if records[-1].kind is RecordKind.COMPLETE and records[-1].body["epoch"] > epoch:
            break
    return Window(tuple(records), (), slot, data)


def slot_of(log: Log, window: Window, epoch: int) -> int | None:
    """The slot of the intent of `epoch`, found by halving; None where the log does not hold it."""
    low, high = window.history.floor, window.last_slot
    while low < high:
        middle = (low + high) // 2
        decided = _decided_at(log, middle, low)
        if decided is not None and decided >= epoch:
            high = middle
        else:
            low = middle + 1
    record = _record_in(log, low)
    is_its = record is not None and record.kind is RecordKind.INTENT and record.body["epoch"] == epoch
    return low if is_its else None


def _decided_at(log: Log, slot: int, lowest: int) -> int | None:
    """The newest epoch that is decided by the records up to `slot`; None when none from `lowest` on tells."""
    for at in range(slot, lowest - 1, -1):
        record = _record_in(log, at)
        if record is None:
            continue
        if record.kind in {RecordKind.INTENT, RecordKind.COMPLETE, RecordKind.REPAIR}:
            return int(record.body["epoch"])
        if record.kind is RecordKind.GENERATION:
            pending, last = record.body["pending"], record.body["last_complete"]
            return last if pending is None else int(pending["epoch"])
    return None


def _record_in(log: Log, slot: int) -> Record | None:
    try:
        return decode(log.read(slot), slot)
    except (KeyError, DamagedRecordError):
        return None  # pruned meanwhile; or damaged and voided


def _back(log: Log, last: int, epochs: int, *, to_term: bool) -> Window:
    """From slot `last` back. Raises `KeyError` for a slot that is not there."""
    records: list[Record] = []
    damaged: list[DamagedSlot] = []
    voids: dict[str, str] = {}
    floor, decided, end = 1, 0, b""
    for slot in range(last, max(0, last - SLOTS_MAX), -1):
        if slot < floor:
            break
        if str(slot) in voids:
            continue
        data = log.read(slot)
        end = end or data
        try:
            record = decode(data, slot)
        except DamagedRecordError as error:
            if records:
                raise _broken(log, slot, error.what) from error
            damaged.append(DamagedSlot(slot, digest(data), error.what))
            continue
        if records and records[-1].slot == slot + 1 and records[-1].after != digest(data):
            raise _broken(log, slot, "the record after it was put after other bytes")
        records.append(record)
        floor = max(floor, record.body.get("floor", 1))
        voids |= record.body.get("voids", {})
        decided += record.kind is RecordKind.INTENT
        if decided >= epochs and record.kind is (RecordKind.GENERATION if to_term else RecordKind.INTENT):
            break
    return Window(_from_a_beginning(records[::-1]), tuple(damaged[::-1]), last, end)


def _broken(log: Log, slot: int, what: str) -> CorruptionError:
    return CorruptionError(
        f"the log is damaged at {log.where(slot)}: {what}", remedy="`tpc log check` says what a start would do."
    )


def _from_a_beginning(records: Sequence[Record]) -> tuple[Record, ...]:
    first = next((index for index, record in enumerate(records) if record.kind in _BEGINS), len(records))
    return tuple(records[first:])


def _trimmed(records: Sequence[Record], epochs: int) -> tuple[Record, ...]:
    """Without what is older than the newest generation record that has `epochs` epochs after it."""
    decided = 0
    for index in range(len(records) - 1, max(-1, len(records) - 1 - SLOTS_MAX), -1):
        decided += records[index].kind is RecordKind.INTENT
        if decided >= epochs and records[index].kind is RecordKind.GENERATION:
            return tuple(records[index:])
    return _from_a_beginning(records[-SLOTS_MAX:])


def _before(record: Record) -> History:
    """What holds before the first record of a window."""
    if record.kind is not RecordKind.INTENT:
        return History()
    manifest = Manifest.from_json(record.body)
    last = manifest.epoch - 1 if manifest.epoch else None
    return History(
        pipeline=manifest.pipeline,
        generation=manifest.generation,
        last_slot=record.slot - 1,
        last_intent=last,
        last_complete=last,
    )
