"""How much waits in the sources of a running job, as its runtime tells it. No decision rests on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLag:
    """What waited in each source of a job, in the order of its sources, when they were asked last."""

    epoch: int
    """The epoch whose planning asked."""
    asked_at: float
    """When that was, in seconds since 1970."""
    waiting: tuple[Mapping[str, int] | None, ...]
    """Topic -> offsets that are behind neither this epoch nor one before it; None for a source that does not tell."""

    @property
    def known(self) -> int | None:
        """Offsets that wait in all sources that tell; None when none does."""
        told = [sum(topics.values()) for topics in self.waiting if topics is not None]
        return sum(told) if told else None
