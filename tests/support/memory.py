"""A log in a dict and a clock that a test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tpc.chaos.simulator.copied_log import CopiedLog
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.errors import PutUnknownError, TransientError
from tpc.support import deadlines

Result = TypeVar("Result")

NOTHING_NOTED = ParkedNote(Path("nowhere"))


class MemoryLog(CopiedLog):
    """Slots in a dict. `lost_answers` says of the next puts whether they land; their answers are lost either way."""

    def __init__(self) -> None:
        super().__init__({})
        self.lost_answers: list[bool] = []
        self.is_down = False
        """Whether a put whose answer is not lost is refused."""

    def put(self, slot: int, data: bytes, after: bytes | None) -> bool:
        if self.lost_answers:
            if self.lost_answers.pop(0):
                super().put(slot, data, after)
            raise PutUnknownError(f"the answer for slot {slot} was lost")
        if self.is_down:
            raise TransientError(f"the log cannot take slot {slot}: connection refused")
        return super().put(slot, data, after)

    def describe(self) -> str:
        return "memory"


class MemoryClock:
    """Time that passes only while somebody waits, or when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.waits_s: list[float] = []
        self.while_waiting: Callable[[], None] = lambda: None

    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    def wall(self) -> float:
        return self.now_s

    def monotonic(self) -> float:
        return self.now_s

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.waits_s.append(timeout_s)
        self.while_waiting()
        if not event.is_set():
            self.now_s += timeout_s
        return event.is_set()

    def within(self, timeout_s: float, call: Callable[[], Result], *, waiting_for: str) -> Result:
        """In time that is the machine's own: a test that lets a log hang says for how long it is waited for."""
        return deadlines.within(timeout_s, call, waiting_for=waiting_for)
