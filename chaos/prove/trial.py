"""Tries one mutant: the checks that look at its files, one after the other, until one of them catches it.

Caught means that a check names an invariant. A mutant that does not fit or cannot be imported, or that only crashes, is
broken; one that every check lets pass has survived. A check counts only if the code as it is passes it (the control);
of the simulator, seeds that the code as it is fails are left out, so that the others count. What is left is not judged.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from tpc.chaos.prove.checks import CHECKS, SIMULATOR, Check, checks_of
from tpc.chaos.prove.copies import copied, sources
from tpc.chaos.prove.mutant import Catch, Mutant, MutantError
from tpc.chaos.prove.outcome import BROKEN, HELD, NOT_JUDGED, SKIPPED, VIOLATED, Found, found

_CONTROL_ATTEMPTS = 2
"""A control that crashes is tried again: librdkafka was seen to end a process by SIGSEGV. One that fails is not."""

_MOST_TOLD = 3
"""Seeds that are named in a line."""


class Fate(str, Enum):
    """What became of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    NOT_JUDGED = "not judged"
    """Who might have noticed it does not let the code as it is pass either."""
    BROKEN = "broken"
    """It does not fit the code, or does not run."""
    SKIPPED = "skipped"
    """Only checks that cannot run on this machine were left."""


@dataclass(frozen=True)
class MutantTrial:
    """What became of a mutant, and who noticed what."""

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

    @property
    def is_as_expected(self) -> bool:
        """Whether the table names the check and the invariant that were found."""
        return self.catch == self.expected

    def to_json(self) -> dict[str, Any]:
        """One record of the proof."""
        return {**asdict(self), "fate": self.fate.value, "is_as_expected": self.is_as_expected}


class Controls:
    """What the unchanged code makes of each check; every check is run on it once, when it is first needed."""

    def __init__(self) -> None:
        self._found: dict[str, Found] = {}
        self._locks = {check.name: threading.Lock() for check in CHECKS}

    def of(self, check: Check) -> Found:
        """What the check finds in the code as it is."""
        with self._locks[check.name]:
            for _ in range(_CONTROL_ATTEMPTS):
                if self._found.get(check.name, {"outcome": BROKEN})["outcome"] == BROKEN:
                    with copied() as copy:
                        self._found[check.name] = run_in(copy, check, "--every-seed")
            return self._found[check.name]

    def to_json(self) -> list[dict[str, Any]]:
        """One record per check."""
        return [{"check": name, **result} for name, result in sorted(self._found.items())]


_FATES = {
    VIOLATED: Fate.CAUGHT,
    NOT_JUDGED: Fate.NOT_JUDGED,
    BROKEN: Fate.BROKEN,
    SKIPPED: Fate.SKIPPED,
    HELD: Fate.SURVIVED,
}
"""By the result that decides, the first of these that any check has."""


def try_mutant(mutant: Mutant, controls: Controls) -> MutantTrial:
    """Try the checks on one mutant."""
    started = time.monotonic()
    results: list[tuple[str, Found]] = []
    try:
        with copied(mutant) as copy:
            for check in _expected_first(checks_of(sources().files(mutant)), mutant.expected):
                results.append((check.name, _judged(copy, check, controls, mutant.expected)))
                if results[-1][1]["outcome"] == VIOLATED:
                    break
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
        [(check, result["outcome"]) for check, result in results],
        round(time.monotonic() - started, 1),
    )


def _expected_first(checks: list[Check], expected: Catch | None) -> list[Check]:
    return sorted(checks, key=lambda check: expected is None or check.name != expected.check)


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
    if result["outcome"] == VIOLATED and (control := controls.of(check))["outcome"] != HELD:
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


def run_in(copy: Path, check: Check, *options: str) -> Found:
    """Run a check on a copy of the code, in a process of its own, with these options of the worker."""
    report = copy.parent / f"{check.name.replace(' ', '-')}.json"
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONHASHSEED": "0", "TMPDIR": str(copy.parent)}
    command = [sys.executable, "-m", "tpc.chaos.prove.worker", check.name, str(report), *options]
    output = report.with_suffix(".txt")
    with output.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=copy,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            process.wait(check.deadline_s)
        except subprocess.TimeoutExpired:
            return found(BROKEN, "", f"not done after {check.deadline_s:g} s")
        finally:
            _end_group(process)
    if not report.exists():
        said = output.read_text(encoding="utf-8", errors="replace")[-2000:]
        return found(BROKEN, "", f"{said}\nthe process ended with {process.returncode}")
    result: Found = json.loads(report.read_text(encoding="utf-8"))
    return result


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """What the check has started ends with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
