"""How the cases of a run are counted, from their records as they stand in cases.json.

A case is a step, a fault and a sink (of a pair, both); a variant of it is no further case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
"""How a case can end."""
UNGROUPED = "user"
"""The suite in which every fault is a case by itself."""
_WORST_FIRST = (FAILED, SKIPPED, PASSED)


@dataclass(frozen=True)
class Tally:
    """How many have which outcome: the cases, all that was run, and what was run beyond one run of each case."""

    cases: Counter[str]
    runs: Counter[str]

    @property
    def more(self) -> Counter[str]:
        """Runs that do not count: a case's further variants, the worst left out, and what no branch is prepared at."""
        return self.runs - self.cases


def tally(records: Iterable[Mapping[str, Any]]) -> Tally:
    """Count records as they stand in cases.json. A case's outcome is the worst of its variants."""
    runs: Counter[str] = Counter()
    outcomes: dict[object, set[str]] = {}
    for number, record in enumerate(records):
        runs[record["outcome"]] += 1
        if record.get("counts", True):
            outcomes.setdefault(number if record["suite"] == UNGROUPED else _case(record), set()).add(record["outcome"])
    worst = (next(outcome for outcome in _WORST_FIRST if outcome in those_seen) for those_seen in outcomes.values())
    return Tally(Counter(worst), runs)


def _case(record: Mapping[str, Any]) -> tuple[object, ...]:
    """Of which case a record is."""
    second = record["second"] or {}
    places = [fault.get(name) for fault in (record, second) for name in ("step", "fault", "sink")]
    return record["suite"], *places
