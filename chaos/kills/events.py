"""What happens in a killed run beside the steps that are reached: kills, and lives that fall silent."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Killed:
    """A kill that was carried out. Times are seconds since 1970; `last_step` is the last one reported before it."""

    number: int
    planned: str
    step: str | None
    epoch: int | None
    epochs_since_restart: int
    at: float
    processes: int
    last_step: str

    def to_json(self) -> dict[str, Any]:
        """For the verdict file."""
        return asdict(self)


@dataclass(frozen=True)
class Silence:
    """A life that was ended because it told no step any more."""

    life: int
    last_step: str
    """The last one that it told; empty if it told none."""
    seconds: float

    def __str__(self) -> str:
        return f"life {self.life}: no step in {self.seconds:g} s after {self.last_step or 'its start'}"
