"""The contract of a log backend: slots with consecutive numbers, and one primitive, put if absent.

A backend stores bytes; what they mean is not its business. `tpc.testing.LogConformance` tries all of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence


class Log(ABC):
    """Slots 1, 2, 3, ... of bytes, each written at most once. Safe for any number of processes."""

    @abstractmethod
    def put(self, slot: int, data: bytes) -> bool:
        """Make `data` the content of `slot` if nobody has put anything there.

        True: `data` is durable in `slot`, by this put or an earlier one of the same bytes. False: the slot holds
        something else. Raises `TransientError` when nothing was put for certain; `PutUnknownError` when neither is
        certain and the same put may be repeated (a lost reply); `DecisionUnknownError` when it may not (a failed
        fsync: the process must end). Whoever put must act on neither.
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
