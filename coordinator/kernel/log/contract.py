"""The contract of a log backend: slots with consecutive numbers, and one primitive, put if absent after what is known.

A backend stores bytes; what they mean is not its business. `tpc.testing.LogConformance` tries all of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from tpc.errors import LogGoneError, PutUnknownError, TransientError


class Log(ABC):
    """Slots 1, 2, 3, ... of bytes, each written at most once. Safe for any number of processes.

    Slot 0 holds no record: it is put when an import into the log begins, and deleted when it has ended.
    """

    @abstractmethod
    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        """Make `data` the content of `slot` if nobody has put anything there, and `slot - 1` holds exactly `after`.

        What the slot before holds is looked at before the put and after it (or held fast from then to then): who puts
        on top of what is not there would go on in another log, or in none. None: the first put of a new log, the only
        one that makes a directory or a table.

        True: `data` is durable in `slot`, by this put or an earlier one of the same bytes. False: the slot holds
        something else. Raises `LogGoneError` when `slot - 1` does not hold `after`; whether `data` is durable is not
        known then. Raises `TransientError` when nothing was put for certain; `PutUnknownError` when neither is
        certain and the same put may be repeated (a lost reply); `DecisionUnknownError` when it may not (a failed
        fsync: the process must end). Whoever put must act on neither.
        """

    @abstractmethod
    def goes_on(self, slot: int, data: bytes) -> bool:
        """Whether `slot + 1` holds anything; `data` is what this process knows of `slot`.

        Raises `LogGoneError` when neither slot holds anything, or `slot` something else than `data`: an older copy
        that went on just as far is not the log. Raises `TransientError` too. `slot + 1` is looked at first, or both at
        one moment: else a log that goes on and is pruned in between would seem to end.
        """

    @abstractmethod
    def slots(self) -> list[int]:
        """The numbers of all slots that hold anything, ascending."""

    @abstractmethod
    def read(self, slot: int) -> bytes:
        """The bytes of a slot. Raises `KeyError` when it is empty."""

    @abstractmethod
    def delete(self, slots: Sequence[int]) -> None:
        """Remove slots below the floor, strictly from the lowest upward, or all at one moment. `TransientError`.

        Never may a slot be empty while the one before it is there: a stale coordinator would put into it.
        """

    @abstractmethod
    def describe(self) -> str:
        """Where the log is, for people, without credentials."""

    def locked_files(self) -> Sequence[Path]:
        """Files of this machine in which it takes locks; see `Sink.locked_files`."""
        return ()

    def require_lasting(self) -> None:
        """Raises `ConfigurationError` when the place is gone with its process. Asked when a pipeline starts."""
        return

    def where(self, slot: int) -> str:
        """Where a slot is, for people, without credentials."""
        return f"slot {slot} of {self.describe()}"

    # For backends that look at the slot before in requests of their own --------------------------------------------

    def require_before(self, slot: int, after: bytes) -> None:
        """Raises `LogGoneError` unless `slot - 1` holds exactly `after`, and what `read` raises."""
        try:
            held = self.read(slot - 1)
        except KeyError:
            raise self.gone(slot - 1) from None
        if held != after:
            raise self.another(slot - 1)

    def require_still_before(self, slot: int, after: bytes) -> None:
        """As `require_before`, once the put was attempted."""
        try:
            self.require_before(slot, after)
        except TransientError as error:
            raise PutUnknownError(f"slot {slot} of the log may be durable: {error.what}") from error

    def known_and_followed(self, slot: int, data: bytes, *, is_followed: bool) -> bool:
        """The answer of `goes_on`, of a backend that has just looked whether the next slot is there."""
        try:
            held = self.read(slot)
        except KeyError:
            if not is_followed:
                raise self.gone(slot) from None
        else:
            if held != data:
                raise self.another(slot)
        return is_followed

    def gone(self, slot: int) -> LogGoneError:
        """The error of a slot that this process knows and that is not there."""
        return LogGoneError(f"slot {slot} of the log at {self.describe()}, which this process knows, is not there")

    def another(self, slot: int) -> LogGoneError:
        """The error of a slot that holds something else than this process knows."""
        return LogGoneError(
            f"slot {slot} of the log at {self.describe()} holds other bytes than this process knows: "
            "another log, or an older copy of it that went on, is in its place"
        )
