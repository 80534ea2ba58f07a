"""A pipeline's records in a log: typed ones are put, all are read, and it is noticed when somebody else puts one.

What a log is stands in `contract`, what records mean in `tpc.records`, what they mean together in `tpc.history`; who
may put what is the machine's business.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from tpc import failpoints
from tpc.coordinator.log.contract import Log
from tpc.errors import CorruptionError, FencedError, PutUnknownError, TpcError, TransientError
from tpc.fold import advanced, fold
from tpc.history import DamagedSlot, History
from tpc.json import JSONObject
from tpc.records import DamagedRecordError, Record, RecordKind, decode

logger = logging.getLogger(__name__)


class Journal:
    """A pipeline's records in a log, as one coordinator (or a reader) sees them. `nonces` makes one for each record."""

    def __init__(self, log: Log, nonces: Callable[[], str] = lambda: uuid.uuid4().hex) -> None:
        self.log = log
        self._nonces = nonces
        self.history = History()

    def open(self) -> History:
        """Read the log from its floor to its end. Raises `CorruptionError` where the records contradict.

        Damage at the end is in the history (`damaged`); whether it may be voided is for `tpc.belonging` to say.
        """
        self.history = fold(*self._records_and_damage())
        return self.history

    def records(self) -> list[Record]:
        """All whole records from the floor on, in order."""
        return self._records_and_damage()[0]

    def _records_and_damage(self) -> tuple[list[Record], list[DamagedSlot]]:
        while True:
            slots = self.log.slots()
            try:
                return self._read(slots)
            except KeyError:
                if self.log.slots()[-1:] == slots[-1:]:
                    raise  # a slot that was listed cannot be read, though nobody has gone on and pruned it

    def _read(self, slots: Sequence[int]) -> tuple[list[Record], list[DamagedSlot]]:
        """From the end back to the floor. Damage at the end is told, voided damage passed over, other is corruption."""
        records: list[Record] = []
        damaged: list[DamagedSlot] = []
        voids: dict[str, str] = {}
        floor = 1
        for slot in reversed(slots):
            if slot < floor:
                break
            if str(slot) in voids:
                continue  # whatever became of its bytes since
            data = self.log.read(slot)
            try:
                record = decode(data, slot)
            except DamagedRecordError as error:
                if records:
                    raise self._corrupt(slot, error) from error
                damaged.append(DamagedSlot(slot, hashlib.sha256(data).hexdigest(), error.what))
                continue
            records.append(record)
            floor = max(floor, record.body.get("floor", 1))
            voids |= record.body.get("voids", {})
        return records[::-1], damaged[::-1]

    def _corrupt(self, slot: int, error: DamagedRecordError) -> CorruptionError:
        return CorruptionError(
            f"a record with valid ones after it is damaged, {self.log.where(slot)}: {error.what}",
            remedy="restore it from a mirror or a backup; nothing was committed or aborted.",
        )

    def next_record(self, kind: RecordKind, body: JSONObject) -> Record:
        """The record that would follow the last one, with a nonce of its own."""
        return Record(self.history.next_slot, kind, self._nonces(), body)

    def put(self, record: Record) -> None:
        """Put a record into its slot, where `next_record` has placed it.

        After a `PutUnknownError` the same record may be put again. Raises `FencedError` when the slot is taken or
        higher slots exist, and what `Log.put` raises.
        """
        slot = record.slot
        where: dict[str, Any] = {"slot": slot, "kind": record.kind.value}
        if "epoch" in record.body:
            where["epoch"] = record.body["epoch"]
        failpoints.hit("log.put", **where)
        if not self.log.put(slot, record.encode()):
            raise FencedError(f"slot {slot} of the log belongs to another coordinator")
        try:
            failpoints.hit("log.stored", **where)
        except (TpcError, OSError) as error:  # durable all the same: only the answer can be lost here
            raise PutUnknownError(f"slot {slot} of the log may be durable: {error}") from error
        try:
            self.require_highest(slot)
        except TransientError as error:
            raise PutUnknownError(f"slot {slot} of the log may be durable: {error.what}") from error
        self.history = advanced(self.history, record)

    def append(self, kind: RecordKind, body: JSONObject) -> None:
        """Put one record after the last; for whoever leaves an unknown put to a person."""
        self.put(self.next_record(kind, body))

    def require_highest(self, slot: int) -> None:
        """Raises `FencedError` when the log goes on after `slot`: whoever thinks it is the last is fenced.

        Raises `TransientError` when the log shows nothing at all: it is not mounted, say.
        """
        slots = self.log.slots()
        if not slots:
            raise TransientError(
                f"the log shows no slot, where slot {slot} was: its directory or table is gone, or not mounted"
            )
        if slots[-1] > slot:
            raise FencedError(f"the log goes on to slot {slots[-1]}, after slot {slot}")

    def require_leading(self) -> None:
        """Raises what `require_highest` does for the last record that is known here."""
        self.require_highest(self.history.last_slot)

    def prune(self) -> None:
        """Delete what lies below the floor. What is pruned is never read as "was not committed"."""
        below = [slot for slot in self.log.slots() if slot < self.history.floor]
        if below:
            self.log.delete(below)
            self.history = self.history.trimmed()
            logger.debug("pruned %d slots below %d", len(below), self.history.floor)
