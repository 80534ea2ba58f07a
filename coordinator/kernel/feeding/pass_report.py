"""What a pass tells of itself, beside what it has made of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PassReport:
    """How a pass went."""

    sink_seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Per sink, how long the slowest task took to "write", to "flush" and to "prepare"."""
    repeated_tasks: bool = False
    """Whether a task ran more than once, so that the branch of a loser may exist."""
