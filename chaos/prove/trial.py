"""Tries one mutant: the checks that execute what it changes, one after the other, until one of them catches it.

Caught means that a check names an invariant. A mutant that does not fit or cannot be imported, or that only crashes, is
broken; one that every check lets pass has survived; one whose statements no check executes is not judged. A check
counts only if the code as it is passes it (the control); of the simulator, seeds that the code as it is fails are left
out, so that the others count. What is left is not judged either.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from tpc.chaos.prove.checks import CHECKS, SIMULATOR, Check
from tpc.chaos.prove.controls import Controls, run_in
from tpc.chaos.prove.copies import copied, sources
from tpc.chaos.prove.executed import Lines, statements_of
from tpc.chaos.prove.mutant import Catch, Mutant, MutantError
from tpc.chaos.prove.outcome import BROKEN, HELD, NOT_JUDGED, SKIPPED, VIOLATED, Found, found

_MOST_TOLD = 3
"""Seeds that are named in a line."""


class Fate(str, Enum):
    """The outcome of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    NOT_JUDGED = "not judged"
    """No check executes what it changes, or who might have noticed it does not let the code as it is pass either."""
    BROKEN = "broken"
    """It does not fit the code, or does not run."""
    SKIPPED = "skipped"
    """Only checks that cannot run on this machine were left."""


@dataclass(frozen=True)
class MutantTrial:
    """The outcome of a mutant, and who noticed what."""

    mutant: str
    rule: int | None
    defect: str
    fate: Fate
    catch: Catch | None = None
    expected: Catch | None = None
    what: str = ""
    trace: list[str] = field(default_factory=list)
    tried: list[tuple[str, str]] = field(default_factory=list)
    """Every check that ran, with its outcome."""
    seconds: float = 0.0
    hung: str = ""
    """The check that did not end in time, where that is what decides."""

    @property
    def is_as_expected(self) -> bool:
        """Whether the table names the check and the invariant that were found."""
        return self.catch == self.expected

    def to_json(self) -> dict[str, Any]:
        """One record of the proof."""
        return {**asdict(self), "fate": self.fate.value, "is_as_expected": self.is_as_expected}


_FATES = {
    VIOLATED: Fate.CAUGHT,
    NOT_JUDGED: Fate.NOT_JUDGED,
    BROKEN: Fate.BROKEN,
    SKIPPED: Fate.SKIPPED,
    HELD: Fate.SURVIVED,
}
"""By the result that decides, the first of these that any check has."""


def _own_deadline_s(check: Check) -> float:
    return check.deadline_s


def try_mutant(
    mutant: Mutant,
    controls: Controls,
    among: Sequence[Check] = CHECKS,
    *,
    crash_ends: bool = False,
    limit_s: Callable[[Check], float] = _own_deadline_s,
) -> MutantTrial:
    """Try these checks on one mutant, each for as long as `limit_s` says.

    `crash_ends`: the first check that crashes or hangs is the last one, too.
    """
    started = time.monotonic()
    results: list[tuple[str, Found]] = []
    try:
        with copied(mutant) as copy:
            for check in _telling_checks(statements_of(mutant, sources()), mutant.expected, controls, among):
                limited = replace(check, deadline_s=limit_s(check))
                results.append((check.name, _judged(copy, limited, controls, mutant.expected)))
                outcome = results[-1][1]["outcome"]
                if outcome == VIOLATED or (crash_ends and outcome == BROKEN):
                    break
            if not results:
                results.append(("", found(NOT_JUDGED, "", "no check executes what it changes")))
    except MutantError as error:
        results.append(("edits", found(BROKEN, "", str(error))))
    name, last = _telling(results)
    fate = _FATES[last["outcome"]]
    return MutantTrial(
        mutant.name,
        mutant.rule,
        mutant.defect,
        fate,
        Catch(name, last["invariant"]) if fate is Fate.CAUGHT else None,
        mutant.expected,
        last["what"],
        last["trace"],
        [(check, result["outcome"]) for check, result in results if check],
        round(time.monotonic() - started, 1),
        name if last.get("is_hung") else "",
    )


def _telling_checks(
    statements: Lines, expected: Catch | None, controls: Controls, among: Sequence[Check]
) -> Iterator[Check]:
    """The checks that execute one of the statements: the expected one, then the others, the fastest first.

    An expected one that cannot run here is among them, since it says why.
    """
    for check in among:
        if expected is not None and check.name == expected.check and controls.executes(check, statements) is not False:
            yield check
    for check in controls.fastest_first(among):
        if (expected is None or check.name != expected.check) and controls.executes(check, statements):
            yield check


def _telling(results: list[tuple[str, Found]]) -> tuple[str, Found]:
    """The result that decides."""
    for outcome in _FATES:
        for name, result in results:
            if result["outcome"] == outcome != HELD:
                return name, result
    return "", found(HELD, "", "no check noticed anything")


def _judged(copy: Path, check: Check, controls: Controls, expected: Catch | None) -> Found:
    """What the check finds in the mutant and not in the code as it is. A kit begins with the `expected` test."""
    if check.name == SIMULATOR and (failing := controls.of(check).get("violations")):
        return _judged_by_other_seeds(copy, check, failing)
    first = ["--first", expected.invariant] if expected is not None and expected.check == check.name else []
    result = run_in(copy, check, *first)
    if result["outcome"] in (VIOLATED, BROKEN) and (control := controls.of(check))["outcome"] != HELD:
        why = control["invariant"] or control["outcome"]
        return found(NOT_JUDGED, "", f"the unchanged code does not pass this check either ({why}: {control['what']})")
    return result


def _judged_by_other_seeds(copy: Path, check: Check, failing: list[dict[str, Any]]) -> Found:
    result = run_in(copy, check, "--leave-out", *(str(each["seed"]) for each in failing))
    if result["outcome"] != HELD:
        return result
    told = ", ".join(f"seed {each['seed']} ({each['invariant']})" for each in failing[:_MOST_TOLD])
    more = f" and {len(failing) - _MOST_TOLD} more" if failing[_MOST_TOLD:] else ""
    return found(NOT_JUDGED, "", f"the unchanged code violates {told}{more}, and no other seed notices the mutant")
