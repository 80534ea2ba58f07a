"""The contract of a log backend: slots with consecutive numbers, and one primitive, put if absent.

A backend stores bytes. What the bytes mean stands in `tpc.records`, what they mean together in `tpc.history`;
who may put what is the machine's business. Here: `Log`, and `Journal`, which puts typed records into a log and
notices when somebody else does.
"""

from __future__ import annotations

import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence

from tpc.errors import CorruptionError, FencedError
from tpc.history import History, advanced, fold
from tpc.json import JSONObject
from tpc.records import DamagedRecordError, Record, RecordKind, decode

logger = logging.getLogger(__name__)


class Log(ABC):
    """Slots 1, 2, 3, ... of bytes, each written at most once. Safe for any number of processes."""

    @abstractmethod
    def put(self, slot: int, data: bytes) -> bool:
        """Make `data` the content of `slot` if nobody has put anything there.

        True: `data` is durable in `slot`. False: the slot holds something else. Raises `DecisionUnknownError` when
        neither is certain (a failed fsync, a lost reply): whoever put must not act on either.
        """

    @abstractmethod
    def slots(self) -> list[int]:
        """The numbers of all slots that hold anything, ascending."""

    @abstractmethod
    def read(self, slot: int) -> bytes:
        """The bytes of a slot. Raises `KeyError` when it is empty."""

    @abstractmethod
    def delete(self, slots: Sequence[int]) -> None:
        """Remove slots below the floor, from the lowest upward."""

    @abstractmethod
    def describe(self) -> str:
        """Where the log is, for people, without credentials."""

    def where(self, slot: int) -> str:
        """Where a slot is, for people, without credentials."""
        return f"slot {slot} of {self.describe()}"


class Journal:
    """A pipeline's records in a log, as one coordinator (or a reader) sees them."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.history = History()

    def open(self) -> History:
        """Read the log from its floor to its end. Raises `CorruptionError` where the records contradict."""
        self.history = fold(self.records())
        return self.history

    def records(self) -> list[Record]:
        """All records from the floor on, in order."""
        while True:
            slots = self.log.slots()
            try:
                return self._read(slots)
            except KeyError:
                if self.log.slots()[-1:] == slots[-1:]:
                    raise  # a slot that was listed cannot be read, though nobody has gone on and pruned it

    def _read(self, slots: Sequence[int]) -> list[Record]:
        found: list[Record] = []
        floor = 1
        for slot in reversed(slots):
            if slot < floor:
                break
            found.append(self._decoded(slot, last=slot == slots[-1]))
            floor = max(floor, found[-1].body.get("floor", 1))
        return found[::-1]

    def _decoded(self, slot: int, *, last: bool) -> Record:
        try:
            return decode(self.log.read(slot), slot)
        except DamagedRecordError as error:
            which = "the last record" if last else "a record with valid ones after it"
            raise CorruptionError(
                f"{which} of the log is damaged, {self.log.where(slot)}: {error.what}",
                remedy="restore it from a mirror or a backup; nothing was committed or aborted.",
            ) from error

    def put(self, kind: RecordKind, body: JSONObject) -> Record:
        """Put a record into the next slot.

        Raises `FencedError` when the slot is taken or higher slots exist, and `DecisionUnknownError`.
        """
        slot = self.history.last_slot + 1
        record = Record(slot, kind, uuid.uuid4().hex, body)
        if not self.log.put(slot, record.encode()):
            raise FencedError(f"slot {slot} of the log belongs to another coordinator")
        highest = self.log.slots()[-1]
        if highest > slot:
            raise FencedError(f"slot {slot} lies in a hole of the log, which goes on to slot {highest}")
        self.history = advanced(self.history, record)
        return record

    def prune(self) -> None:
        """Delete what lies below the floor. What is pruned is never read as "was not committed"."""
        below = [slot for slot in self.log.slots() if slot < self.history.floor]
        if below:
            self.log.delete(below)
            self.history = self.history.trimmed()
            logger.debug("pruned %d slots below %d", len(below), self.history.floor)
