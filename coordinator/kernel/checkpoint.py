"""Where a job keeps what outlives it: a directory of this machine, or a place that only its runtime reaches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path


class Checkpoint(ABC):
    """The place of one job. Its text is what users and commands call it by."""

    notes: Path
    """A directory of this machine for what no decision rests on: the lock, the stop request, notes for people."""

    @abstractmethod
    def __str__(self) -> str: ...


class LocalCheckpoint(Checkpoint):
    """The local directory `root`. Nothing is opened."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notes = root / "tpc"

    def __str__(self) -> str:
        return str(self.root)
