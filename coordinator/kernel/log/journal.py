"""A pipeline's records in a log: typed ones are put, all are read. When somebody else puts one is noticed in `fencing`.

A log is described in `contract`, what records mean in `tpc.records`, what they mean together in `tpc.history`; who
may put what is the machine's business.
"""

from __future__ import annotations

import logging
import shlex
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from tpc import failpoints
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.log.fencing import Fencing
from tpc.errors import (
    ConfigurationError,
    CorruptionError,
    FencedError,
    LogGoneError,
    OvertakenError,
    PutUnknownError,
    TpcError,
    TransientError,
)
from tpc.fold import advanced, beginning, fold
from tpc.history import DamagedSlot, History
from tpc.json import JSONObject
from tpc.records import DamagedRecordError, Record, RecordKind, decode, digest

logger = logging.getLogger(__name__)

MARK_SLOT = 0
"""The slot, no record's, that holds something while an import into this log has not ended."""
IMPORT_MARK = b"an import into this log has not ended\n"


class Journal(Fencing):
    """A pipeline's records in a log, as one coordinator (or a reader) sees them. `nonces` makes one for each record."""

    def __init__(self, log: Log, nonces: Callable[[], str] = lambda: uuid.uuid4().hex) -> None:
        self.log = log
        self._nonces = nonces
        self.history = History()
        self._end: bytes | None = None
        """The bytes of the last slot that is known here, damaged ones too: what the next record follows."""
        self._open: bytes | None = None
        """A record that was put after these bytes, and of which it is not known yet whether it is in the log."""

    def again(self) -> Journal:
        """Another journal of the same log, which has read nothing yet."""
        return Journal(self.log)

    def open(self) -> History:
        """Read the log from its floor to its end. Raises `CorruptionError` where the records contradict.

        Raises `ConfigurationError` for a log that was moved away, and for one whose import has not ended.

        Damage at the end is in the history (`damaged`); whether it may be voided is decided in `tpc.damaged_log_end`.
        """
        if self.read().moved_to is not None:
            raise self.moved()
        return self.history

    def read(self) -> History:
        """As `open`, also of a log that says that it was moved: for whoever moves it."""
        records, damaged, end = self._read_all()
        self.history, self._end = fold(records, damaged), end
        return self.history

    def moved(self) -> ConfigurationError:
        """The error of a log whose last record says where it went."""
        remedy = "start with log= set to that place; for a command, name it with --log."
        if self.history.savepoint is not None:
            place = (self.history.moved_to or "").removeprefix("the savepoint ")
            savepoint = shlex.quote(place) if place.startswith("/") or "://" in place else "SAVEPOINT"
            remedy = f"go on from that savepoint: `tpc restore {savepoint} --checkpoint NEW --move`, then start there."
        return ConfigurationError(
            f"the log at {self.log.describe()} was moved to {self.history.moved_to}", remedy=remedy
        )

    def records(self) -> list[Record]:
        """All whole records from the floor on, in order."""
        return self._read_all()[0]

    def _read_all(self) -> tuple[list[Record], list[DamagedSlot], bytes | None]:
        while True:
            slots = self.log.slots()
            if MARK_SLOT in slots:
                raise ConfigurationError(
                    f"the log at {self.log.describe()} is half a log: an import into it has not ended",
                    remedy="repeat the command that was interrupted with the same words (`tpc log import` from the old "
                    f"place, `tpc restore`, `tpc adopt`); the mark of it is {self.log.where(MARK_SLOT)}.",
                )
            try:
                return self._read(slots)
            except KeyError:
                if self.log.slots()[-1:] == slots[-1:]:
                    raise  # a slot that was listed cannot be read, though nobody has gone on and pruned it

    def _read(self, slots: Sequence[int]) -> tuple[list[Record], list[DamagedSlot], bytes | None]:
        """From the end back to the floor. Damage at the end is told, voided damage passed over, other is corruption."""
        records: list[Record] = []
        damaged: list[DamagedSlot] = []
        voids: dict[str, str] = {}
        end: bytes | None = None
        floor = 1
        for slot in reversed(slots):
            if slot < floor:
                break
            if str(slot) in voids:
                self._require_chain(records, slot, voids[str(slot)])  # whatever happened to its bytes since
                continue
            data = self.log.read(slot)
            end = data if end is None else end
            try:
                record = decode(data, slot)
            except DamagedRecordError as error:
                if records:
                    raise self._corrupt(slot, error) from error
                damaged.append(DamagedSlot(slot, digest(data), error.what))
                continue
            self._require_chain(records, slot, digest(data))
            records.append(record)
            floor = max(floor, record.body.get("floor", 1))
            voids |= record.body.get("voids", {})
        return beginning(records[::-1]), damaged[::-1], end

    def _require_chain(self, later: Sequence[Record], slot: int, held: str) -> None:
        """Raises `CorruptionError` when the record after `slot` (the last of `later`) was put after other bytes."""
        if later and later[-1].slot == slot + 1 and later[-1].after != held:
            raise CorruptionError(
                f"the records of the log are no chain: slot {slot + 1} was put after other bytes than those in "
                f"{self.log.where(slot)}",
                remedy="two logs were mixed or a file was changed: restore the log from a backup or a mirror.",
            )

    def _corrupt(self, slot: int, error: DamagedRecordError) -> CorruptionError:
        return CorruptionError(
            f"a record with valid ones after it is damaged, {self.log.where(slot)}: {error.what}",
            remedy="restore it from a mirror or a backup; nothing was committed or aborted.",
        )

    def next_record(self, kind: RecordKind, body: JSONObject) -> Record:
        """The record that would follow the last one, with a nonce of its own."""
        after = "" if self._end is None else digest(self._end)
        return Record(self.history.next_slot, kind, self._nonces(), body, after)

    def put(self, record: Record) -> None:
        """Put a record into its slot, where `next_record` has placed it.

        After a `PutUnknownError` the same record may be put again. Raises `SlotTakenError` when the slot holds
        another's whole record, `OvertakenError` when this one is on the record and the log goes on after it,
        `FencedError` when the log goes on after a first put or where this one's fate is not known, and what `Log.put`
        raises.
        """
        slot, data = record.slot, record.encode()
        where: dict[str, Any] = {"slot": slot, "kind": record.kind.value}
        if "epoch" in record.body:
            where["epoch"] = record.body["epoch"]
        history = advanced(self.history, record)  # before the put: a record that no reader would take is never durable
        failpoints.hit("log.put", **where)
        was_open, self._open = self._open == data, data
        try:
            is_ours = self.log.put(slot, data, self._end)
        except LogGoneError as error:
            raise self._passed(error) from error
        except TransientError:
            if not was_open:
                self._open = None  # the log's word that nothing was put, ever
            raise
        if not is_ours:
            self._open = None
            raise self._taken(slot)
        try:
            failpoints.hit("log.stored", **where)
        except (TpcError, OSError) as error:  # durable all the same: only the answer can be lost here
            raise PutUnknownError(f"slot {slot} of the log may be durable: {error}") from error
        try:
            self._require_highest(slot, data, is_first=self._end is None)
        except TransientError as error:
            raise PutUnknownError(f"slot {slot} of the log may be durable: {error.what}") from error
        except FencedError as error:
            if self._end is None:
                raise
            raise OvertakenError(error.what, **error.details) from error
        self.history, self._end, self._open = history, data, None

    def append(self, kind: RecordKind, body: JSONObject) -> None:
        """Put one record after the last; for whoever leaves an unknown put to a person."""
        self.put(self.next_record(kind, body))

    def prune(self) -> None:
        """Delete what lies below the floor. What is pruned is never read as "was not committed"."""
        below = [slot for slot in self.log.slots() if slot < self.history.floor]
        if below:
            self.history = self.history.trimmed()  # as whoever opens the log reads it, deleted or not
            self.log.delete(below)
            logger.debug("pruned %d slots below %d", len(below), self.history.floor)
