"""What a check reports of a copy of the code, as JSON, since it runs in a process of its own."""

from __future__ import annotations

from typing import Any

Found = dict[str, Any]

HELD, VIOLATED, BROKEN, SKIPPED = "held", "violated", "broken", "skipped"
NOT_JUDGED = "not judged"
"""The check may have noticed the mutant, but it notices something in the code as it is, too."""


def found(outcome: str, invariant: str = "", what: str = "", trace: list[str] | None = None) -> Found:
    """What a check reports."""
    return {"outcome": outcome, "invariant": invariant, "what": what, "trace": trace or []}
