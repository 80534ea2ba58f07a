"""What `tpc doctor` finds: of one thing what was seen, what is needed, and what to do. Plain data.

What a sink can tell of its server beside what its check refuses: limits that bite late, clocks that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from tpc.sink import CheckContext

CLOCKS_DIFFER_S = 5.0
"""From here on a difference between two clocks is told."""


class Level(str, Enum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    """A pipeline starts; something may become a nuisance."""
    PROBLEM = "problem"
    """A start is refused, or an epoch will fail."""


@dataclass(frozen=True)
class Finding:
    """`about` says of what; `needed` and `remedy` are empty where all is well and nothing is to say."""

    level: Level
    about: str
    seen: str
    needed: str = ""
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fields, the level as its word."""
        return {**asdict(self), "level": self.level.value}


@runtime_checkable
class Diagnosed(Protocol):
    """What a `Committer` has besides, whose server has limits to look at."""

    def findings(self, context: CheckContext) -> Sequence[Finding]:
        """What its server shows, against what the pipeline needs. Only reads. Raises what `check` raises."""


def clocks(theirs_s: float, asked_s: float, answered_s: float) -> Finding:
    """A server's clock, in seconds since 1970, against the driver's before the question and after the answer.

    Nothing of a guarantee rests on a clock: ages that people read do, and the age at which an orphan may be aborted.
    """
    behind_s, ahead_s = asked_s - theirs_s, theirs_s - answered_s
    apart_s = max(behind_s, ahead_s, 0.0)
    seen = f"{apart_s:.1f} s apart" if apart_s else "they agree, within the time that the answer took"
    needed = f"at most {CLOCKS_DIFFER_S:g} s"
    if apart_s <= CLOCKS_DIFFER_S:
        return Finding(Level.OK, "clocks of driver and server", seen, needed)
    return Finding(Level.WARNING, "clocks of driver and server", seen, needed, "let both keep time by NTP.")
