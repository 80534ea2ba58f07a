"""What readers should see and do see: rows as multisets, in any order, once the system has settled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tpc.sink import Outcome
from tpc.testing.values import plain

Row = dict[str, Any]
Rows = list[Row]
Seen = TypeVar("Seen")

PAUSE_S = 0.02
LOOK_AGAIN_S = 0.2
"""What is too many may come later than what is due, by as much as this."""


def counted(rows: Rows) -> Counter[str]:
    """Rows as a multiset."""
    return Counter(repr([(name, plain(value)) for name, value in sorted(row.items())]) for row in rows)


def expected_rows(branches: Iterable[Rows], key_column: str, merged: Callable[[Row, Row], Row]) -> Rows:
    """What readers see when the rows of these branches were committed in this order.

    `key_column`: of a sink that merges by key, else empty; `merged` says what happens to a key that is there already.
    """
    rows = [row for branch in branches for row in branch]
    if not key_column:
        return rows
    by_key: dict[Any, Row] = {}
    for row in rows:
        key = row[key_column]
        by_key[key] = merged(by_key[key], row) if key in by_key else row
    return list(by_key.values())


def settled(look: Callable[[], Seen], expected: Seen, settle_s: float) -> Seen:
    """What is seen once it is as expected, or when `settle_s` has passed; then once more."""
    deadline = time.monotonic() + settle_s
    while (seen := look()) != expected and time.monotonic() < deadline:
        time.sleep(PAUSE_S)
    if seen == expected and settle_s:
        time.sleep(min(settle_s, LOOK_AGAIN_S))
        seen = look()
    return seen


def difference(expected: Counter[str], seen: Counter[str]) -> str:
    """What is missing and what is too many, in words."""
    missing, extra = expected - seen, seen - expected
    parts = [f"{seen.total()} rows where {expected.total()} are due"]
    parts += [f"missing: {some(list(missing.elements()))}"] if missing else []
    parts += [f"too many: {some(list(extra.elements()))}"] if extra else []
    return "; ".join(parts)


def told(outcomes: Sequence[Outcome]) -> str:
    """Outcomes in words."""
    return ", ".join(f"{o.verdict.name} ({o.evidence})" if o.evidence else o.verdict.name for o in outcomes)


def some(things: Sequence[Any], limit: int = 3) -> str:
    """The first few of many."""
    shown = ", ".join(str(thing) for thing in things[:limit])
    return shown if len(things) <= limit else f"{shown} and {len(things) - limit} more"
