"""A run as JSON, in the form that the harness's reports read: every fault a case of the suite "user".

The checks of the end stand in a case of their own, without a fault: no single fault is to blame for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpc.chaos.checkers.compare import Check
from tpc.chaos.faults.hits import StepHit
from tpc.chaos.runner.attempts import Attempt, recovery_s
from tpc.chaos.user.verdict import NotCompared

SUITE = "user"


def run_json(
    settings: Mapping[str, Any],
    began_at: float,
    cases: Sequence[Mapping[str, Any]],
    not_compared: Sequence[NotCompared],
    unplaced: Sequence[str],
) -> dict[str, Any]:
    """The whole record; `unplaced` are kinds of fault that had no place in the pipeline."""
    return {
        "settings": dict(settings),
        "began_at": began_at,
        "seconds": round(time.time() - began_at, 3),
        "cases": list(cases),
        "blanks": [],
        "not_compared": [{"sink": one.sink, "reason": one.reason} for one in not_compared],
        "no_place_for": list(unplaced),
    }


def fault_json(
    attempt: Attempt, seed: int, hits: Sequence[StepHit], words: Callable[[int, int | None], str]
) -> dict[str, Any]:
    """One fault. `words` gives a part of the pipeline's log."""
    first, last = attempt.lives[0], attempt.next or attempt.lives[-1]
    unseen = attempt.fired is not None and attempt.unseen
    wrong = "" if attempt.fired is None or unseen else attempt.wrong
    outcome = "skipped" if attempt.fired is None or unseen else "failed" if wrong else "passed"
    recovered = None if attempt.next is None else recovery_s(attempt.next, hits)
    fault = attempt.planned.fault
    return {
        "name": f"{attempt.number}/{fault.step}/{attempt.planned.kind}",
        "suite": SUITE,
        "step": fault.step,
        "fault": attempt.planned.kind,
        "sink": fault.sink,
        "second": None,
        "processes": "own processes",
        "seed": seed,
        "epoch": None if attempt.fired is None else attempt.fired.get("epoch"),
        "fired": [] if attempt.fired is None else [{**attempt.fired, "fault": attempt.planned.kind}],
        "outcome": outcome,
        "reason": wrong or _why_skipped(attempt, unseen=unseen),
        "recovery_s": None if recovered is None else round(recovered, 3),
        "seconds": round((last.ended_at or last.started_at) - first.started_at, 3),
        "checks": [],
        "timeline": _timeline(attempt, recovered),
        "log": words(first.log_from, last.log_to) if wrong else "",
    }


def _why_skipped(attempt: Attempt, *, unseen: bool) -> str:
    if unseen:
        return "the run was left before it could be seen what came of it"
    return "" if attempt.fired is not None else f"its place was not reached in {len(attempt.lives)} lives"


def _timeline(attempt: Attempt, recovered: float | None) -> list[dict[str, Any]]:
    begin = attempt.lives[0].started_at
    told: list[tuple[float, str]] = []
    for life in [*attempt.lives, *([attempt.next] if attempt.next is not None else [])]:
        told.append((life.started_at, f"life {life.number} begins, process {life.pid}"))
        if life.ended_at is not None:
            told.append((life.ended_at, f"life {life.number} ends with {life.code}"))
    if attempt.fired is not None:
        told.append((attempt.fired["at"], f"{attempt.planned}, process {attempt.fired['pid']}"))
    if attempt.next is not None and recovered is not None:
        told.append((attempt.next.started_at + recovered, f"the first epoch of life {attempt.next.number} is complete"))
    return [{"s": round(at - begin, 3), "what": what} for at, what in sorted(told)]


def end_json(checks: Sequence[Check], seed: int, log: str) -> dict[str, Any]:
    """What was checked after the last round."""
    passed = all(check.passed for check in checks)
    failed = [check.name for check in checks if not check.passed]
    reason = "" if passed else f"does not hold: {'; '.join(failed)}"
    return _end("after the last round", seed, reason, checks, "" if passed else log)


def left_json(why: str, seed: int, log: str) -> dict[str, Any]:
    """In the place of `end_json`, of a run that was left before its end."""
    return _end("the run was left", seed, f"nothing has been checked: {why}", [], log)


def _end(name: str, seed: int, wrong: str, checks: Sequence[Check], log: str) -> dict[str, Any]:
    return {
        "name": name,
        "suite": SUITE,
        "step": "the end",
        "fault": "none",
        "sink": None,
        "second": None,
        "processes": "own processes",
        "seed": seed,
        "epoch": None,
        "fired": [],
        "outcome": "failed" if wrong else "passed",
        "reason": wrong,
        "recovery_s": None,
        "seconds": 0.0,
        "checks": [check.to_json() for check in checks],
        "timeline": [],
        "log": log,
    }
