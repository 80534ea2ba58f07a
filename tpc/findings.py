"""What `tpc doctor` finds: for each thing what was seen, what is needed, and what to do. Plain data.

A sink reports here what its check does not refuse: limits of its server that fail only later, clocks that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from tpc.sink import CheckContext

CLOCKS_DIFFER_S = 5.0
"""A greater difference between two clocks is a warning."""
_CLOCKS = "clocks of this machine and the server"


class Level(str, Enum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    """A pipeline starts; this may cause trouble later."""
    PROBLEM = "problem"
    """A start is refused, or an epoch will fail."""


@dataclass(frozen=True)
class Finding:
    """`about` names the thing; `needed` and `remedy` are empty if all is well."""

    level: Level
    about: str
    seen: str
    needed: str = ""
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fields; the level as its value."""
        return {**asdict(self), "level": self.level.value}


@runtime_checkable
class Diagnosed(Protocol):
    """What a `Committer` has in addition if its server has limits to check."""

    def findings(self, context: CheckContext) -> Sequence[Finding]:
        """Compare the server's limits with what the pipeline needs. Only reads. Raises what `check` raises."""


def clocks(theirs_s: float, asked_s: float, answered_s: float) -> Finding:
    """Compare a server's clock, in seconds since 1970, with this process's before the question and after the answer.

    No guarantee depends on a clock. The ages that people read do, and the age at which an orphan may be aborted.
    """
    behind_s, ahead_s = asked_s - theirs_s, theirs_s - answered_s
    apart_s = max(behind_s, ahead_s, 0.0)
    seen = f"{apart_s:.1f} s apart" if apart_s else "they agree, within the time that the answer took"
    needed = f"at most {CLOCKS_DIFFER_S:g} s"
    if apart_s <= CLOCKS_DIFFER_S:
        return Finding(Level.OK, _CLOCKS, seen, needed)
    return Finding(Level.WARNING, _CLOCKS, seen, needed, "synchronize both machines by NTP.")
