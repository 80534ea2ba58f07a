"""Whether a coordinator is fenced: the log goes on after the last record that it knows, by another's hand.

The log alone decides it. The engine asks here before an error is told (`engine/leadership.py`) and during a pass
(`engine/successor_watch.py`). What a sink keeps, its owner entry, stops a fenced coordinator's commits there
(`Participants.take_ownership`), and follows from the same generation.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod

from tpc.coordinator.kernel.log.contract import Log
from tpc.errors import (
    ConfigurationError,
    CorruptionError,
    FencedError,
    LogGoneError,
    OperatorActedError,
    PutUnknownError,
    SlotTakenError,
    TpcError,
    TransientError,
)
from tpc.history import History
from tpc.records import OF_OPERATORS, RecordKind, decode

logger = logging.getLogger(__name__)


class Fencing(ABC):
    """The part of a journal that decides whether somebody else has gone on in the log."""

    log: Log
    history: History
    _end: bytes | None
    """The bytes of the last slot that is known here."""
    _open: bytes | None
    """A record that was put after these bytes, and of which it is not known yet whether it is in the log."""

    @abstractmethod
    def again(self) -> Fencing:
        """Another journal of the same log, which has read nothing yet."""

    @abstractmethod
    def open(self) -> History:
        """Read the log, unless it says that it was moved."""

    @abstractmethod
    def read(self) -> History:
        """Read the log, also one that says that it was moved."""

    def require_leading(self) -> None:
        """Raises `FencedError` when the log goes on after the last record that is known here.

        A record of its own, of which it is not known yet whether it is in the log, is no other's. Raises `LogGoneError`
        when the last record is not there or is another's, `TransientError` when it cannot be read.
        """
        slot, ours = self.history.next_slot - 1, self._open
        try:
            self._require_highest(slot, self._end or b"", is_first=False)
        except FencedError:
            if ours is None or not self._holds(slot + 1, ours):
                raise
            self._require_highest(slot + 1, ours, is_first=False)

    def _holds(self, slot: int, data: bytes) -> bool:
        try:
            return self.log.read(slot) == data
        except KeyError:
            return False

    def _require_highest(self, slot: int, data: bytes, *, is_first: bool) -> None:
        try:
            # A first put looks for nothing before it: it may have fallen into a hole that pruning has left.
            goes_on = max(self.log.slots(), default=0) > slot if is_first else self.log.goes_on(slot, data)
        except LogGoneError as error:
            raise self._passed(error) from error
        if goes_on:
            by_operator = self._is_by_operator(slot)
            kind, with_what = (OperatorActedError, " with an operator's decision") if by_operator else (FencedError, "")
            raise kind(f"the log goes on after slot {slot}{with_what}", by_operator=by_operator)

    def _is_by_operator(self, after: int) -> bool:
        """Whether all that came after this slot are decisions of operators; then no other coordinator leads.

        The first record of another kind answers it: whoever is fenced has a deadline for this look, however long the
        log is.
        """
        try:
            later = [slot for slot in self.log.slots() if slot > after]
            return bool(later) and all(decode(self.log.read(slot), slot).kind in OF_OPERATORS for slot in later)
        except (TpcError, KeyError) as error:  # who leads is known no better by that
            logger.debug("what came after slot %d of the log cannot be read: %s", after, error)
            return False

    def _taken(self, slot: int) -> TpcError:
        """Why a put found its slot taken. Raises `DamagedRecordError` when no record says by which coordinator.

        "Nothing was put" would not say enough when it cannot be read: another may have decided in that slot.
        """
        try:
            record = decode(self.log.read(slot), slot)
        except KeyError:
            return self._passed(self.log.gone(slot))
        except TransientError as error:
            return PutUnknownError(f"slot {slot} of the log is taken, by whom cannot be read: {error.what}")
        if record.kind is RecordKind.MOVED:
            return SlotTakenError(f"the log was moved to {record.body['to']}")
        if self._is_by_operator(slot - 1):
            what = f"slot {slot} of the log holds an operator's decision ({record.kind.value})"
            remedy = "look at it (`tpc status`), then do again what was to be done."
            return SlotTakenError(what, remedy=remedy, by_operator=True)
        return SlotTakenError(f"slot {slot} of the log belongs to another coordinator")

    def _passed(self, error: LogGoneError) -> TpcError:
        """What it means that a slot is not as it was: `error`, or that others have gone on and pruned it."""
        try:
            history = self.again().read()  # a log that was moved away tells it too
        except (ConfigurationError, CorruptionError, TransientError, KeyError):
            return error
        if history.generation > self.history.generation and history.floor > self.history.last_slot:
            return FencedError(f"the log goes on to slot {history.last_slot}, after slot {self.history.last_slot}")
        return error
