"""The HTML report of the fault matrix: what was broken where, what the checkers found, failures first.

Turns the record of a run (its cases, blanks and settings, as JSON) into what `matrix.html.j2` shows. A soak has a
report of its own (`soak`).
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpc.chaos.faults.fault import KINDS
from tpc.chaos.reports.parts import clock, day_and_time, histogram, tallied_checks, took, write_page
from tpc.chaos.reports.tally import Tally, tally
from tpc.failpoints import STEPS

SUITES: Mapping[str, str] = {
    "matrix": "Matrix",
    "pairs": "Pairs",
    "processes": "Processes",
    "disk": "Disk",
    "power": "Power cuts",
    "load": "Load",
    "service": "Service",
    "service-servers": "Service: servers",
    "service-pairs": "Service: pairs",
    "service-firings": "Service: epochs of firings",
    "service-power": "Service: power cuts",
    "service-disks": "Service: disks",
    "service-lost-disks": "Service: lost disks",
    "service-standby": "Service: standby",
}
"""The suites in their order, with their headings; others follow."""
TABLES: Mapping[str, str] = {
    "matrix": "Matrix: faults at the steps of the protocol, a query of Spark",
    "service": "Matrix: faults at the steps of the protocol, a service without Spark",
}
"""The suites that are drawn as tables of steps and faults, with their titles."""
OUTCOMES: Mapping[str, str] = {"failed": "✗", "skipped": "-", "passed": "✓"}
"""How a case can end, the worst first, with the sign that says so without colour."""
DIFFERENCES = 5
"""How many differences of a case are shown before its record is opened."""
SLOWEST = 5
"""How many of the slowest recoveries are named."""


def write_matrix_report(path: Path, record: Mapping[str, Any]) -> Path:
    """Write the report of a run of the matrix to `path` and return it."""
    return write_page(path, "matrix.html.j2", matrix_view(record))


def matrix_view(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows."""
    letters = letters_of(record["cases"], record.get("blanks", []))
    cases = _case_views(record["cases"], letters, record["settings"])
    pairs = [case for case in cases if case["suite"] == "pairs"]
    tables = [_table(suite, cases, record.get("blanks", [])) for suite in TABLES if _has(cases, suite)]
    return {
        **_counted(tally(cases)),
        "signs": OUTCOMES,
        "when": day_and_time(record["began_at"]),
        "took": took(record["seconds"]),
        "settings": record["settings"],
        "seeds": sorted({case["seed"] for case in cases}),
        "processes": Counter(case["processes"] for case in cases),
        "failed": [case for case in cases if case["outcome"] == "failed"],
        "skipped": [case for case in cases if case["outcome"] == "skipped"],
        "tables": tables,
        "drawn": [*TABLES, "pairs"],
        "pairs": PairGrid(pairs) if pairs else None,
        "suites": _suites(cases),
        "recovery": histogram([case["recovery_s"] for case in cases if case["recovery_s"] is not None]),
        "slowest": _slowest(cases),
        "checks": tallied_checks(case["checks"] for case in cases),
    }


def _has(cases: Sequence[Mapping[str, Any]], suite: str) -> bool:
    return any(case["suite"] == suite for case in cases)


def _table(suite: str, cases: Sequence[Mapping[str, Any]], blanks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One suite's cases and blanks by step and fault, and what the letters in it mean."""
    members = [case for case in cases if case["suite"] == suite]
    empty = [blank for blank in blanks if blank.get("suite", "matrix") == suite]
    named = [subject(item) for item in (*members, *empty)]
    letters = {name: letter for name, letter in letters_of(cases, blanks).items() if name in named}
    return {
        "suite": suite,
        "title": TABLES[suite],
        "letters": letters,
        "grid": Grid(members, empty, letters),
        "blanks": Counter(blank["reason"] for blank in empty),
    }


def _counted(tallied: Tally) -> dict[str, Any]:
    """How many cases there are and how they ended, and the same of all runs and of those that do not count."""
    return {
        "total": tallied.cases.total(),
        "outcomes": {outcome: tallied.cases[outcome] for outcome in OUTCOMES},
        "runs": tallied.runs.total(),
        "run_outcomes": {outcome: tallied.runs[outcome] for outcome in OUTCOMES},
        "more": {outcome: tallied.more[outcome] for outcome in OUTCOMES},
    }


def _case_views(
    cases: Sequence[Mapping[str, Any]], letters: Mapping[str, str], settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Each case with what the report adds to its record; in the order of the suites and, within one, of the steps."""
    suites = list(SUITES)
    taken: Counter[str] = Counter()
    views = [_case_view(case, letters, taken, _again(case, settings)) for case in cases]
    return sorted(
        views,
        key=lambda case: (
            suites.index(case["suite"]) if case["suite"] in suites else len(suites),
            step_order(case["step"]) if case["suite"] in (*TABLES, "pairs") else 0,
        ),
    )


def _again(case: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The command that repeats a case; of a user's pipeline only the whole run can be repeated."""
    seed = settings["seed"]
    if case["suite"] == "user":
        target, faults = shlex.quote(settings["target"]), shlex.quote(settings["faults"])
        cut = f" --events-per-epoch {settings['events per epoch']}" if "events per epoch" in settings else ""
        return f"tpc chaos run {target} --faults {faults} --minutes {settings['minutes']:g} --seed {seed}{cut}"
    return f"tpc chaos matrix --suite {case['suite']} --only {shlex.quote(case['name'])} --seed {seed}"


def _case_view(case: Mapping[str, Any], letters: Mapping[str, str], taken: Counter[str], again: str) -> dict[str, Any]:
    slug = re.sub(r"[^a-z0-9]+", "-", case["name"].lower()).strip("-")
    taken[slug] += 1
    return {
        **case,
        "counts": case.get("counts", True),
        "set_up_again": case.get("set_up_again", []),
        "anchor": f"case-{slug}" if taken[slug] == 1 else f"case-{slug}--{taken[slug]}",
        "sign": OUTCOMES[case["outcome"]],
        "letter": _letter(case, letters),
        "differences": [line for check in case["checks"] for line in check["differences"]][:DIFFERENCES],
        "replay": again,
        "fired": [{**fired, "clock": clock(fired["at"])} for fired in case["fired"]],
    }


def _letter(case: Mapping[str, Any], letters: Mapping[str, str]) -> str:
    """What tells a case from the others of its cell: the sink it is of; of a pair, both."""
    first, second = (letters.get(subject(fault) or "", "") if fault else "" for fault in (case, case["second"]))
    return f"{first}→{second}" if case["second"] and (first or second) else first


def _suites(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each suite with what was run of it, how many cases that is, and how they ended."""
    names = dict.fromkeys(case["suite"] for case in cases)
    suites = []
    for name in names:
        members = [case for case in cases if case["suite"] == name]
        suites.append(
            {
                "name": name,
                "heading": SUITES.get(name, name.capitalize()),
                "cases": members,
                **_counted(tally(members)),
                "seconds": sum(case["seconds"] for case in members),
            }
        )
    return suites


def _slowest(cases: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    recovered = [case for case in cases if case["recovery_s"] is not None]
    return sorted(recovered, key=lambda case: -float(case["recovery_s"]))[:SLOWEST]


# Where each case of the fault matrix stands: steps down, faults across; pairs by their first and second fault.
#
# Only places and order; what a case says is of `matrix`.

Case = Mapping[str, Any]
Blank = Mapping[str, Any]


def step_order(step: str) -> int:
    """The place of a step in the protocol; steps that are not in it come last."""
    return _ORDER.get(step, len(_ORDER))


_ORDER = {step: index for index, step in enumerate(STEPS)}


def _fault_order(kind: str) -> int:
    return list(KINDS).index(kind) if kind in KINDS else len(KINDS)


def subject(fault: Mapping[str, Any]) -> str | None:
    """What the fault is of: its sink or, where it has none, what the case's name says beyond step and fault."""
    _, _, more = str(fault.get("name", "")).partition(f"{fault['step']}/{fault['fault']}/")
    return fault["sink"] or (more if more and fault.get("second") is None else None)


def letters_of(cases: Sequence[Case], blanks: Sequence[Blank]) -> dict[str, str]:
    """For each sink (or other subject) the fewest first letters that tell it from the others, in upper case."""
    faults = [*cases, *(case["second"] for case in cases if case["second"]), *blanks]
    subjects = list(dict.fromkeys(name for name in map(subject, faults) if name))
    return {name: _letters(name, subjects) for name in subjects}


def _letters(name: str, names: Sequence[str]) -> str:
    others = [other for other in names if other != name]
    for length in range(1, len(name)):
        if not any(other.startswith(name[:length]) for other in others):
            return name[:length].capitalize()
    return name.capitalize()


class Grid:
    """The matrix: a row per step, a column per fault; a cell holds its cases, its blanks, or neither (not run)."""

    def __init__(self, cases: Sequence[Case], blanks: Sequence[Blank], letters: Mapping[str, str]) -> None:
        both = [*cases, *blanks]
        kinds = dict.fromkeys(item["fault"] for item in both)
        self.faults = {kind: KINDS.get(kind, "") for kind in sorted(kinds, key=_fault_order)}
        """Each kind of fault with what it means; a kind that is not of the table comes last."""
        self.steps = sorted(dict.fromkeys(item["step"] for item in both), key=step_order)
        self.reasons = {reason: n for n, reason in enumerate(dict.fromkeys(b["reason"] for b in blanks), start=1)}
        """Each reason of a blank with the number that is in its cells."""
        self._cases = _by_place(cases)
        self._blanks = _by_place(blanks)
        self._letters = letters

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row per step, in the order of the protocol. `begins` says that another part of the protocol begins."""
        parts = [step.partition(".")[0] for step in self.steps]
        return [
            {
                "step": step,
                "about": STEPS.get(step, ""),
                "begins": index > 0 and parts[index - 1] != parts[index],
                "cells": [self._cell(step, fault) for fault in self.faults],
            }
            for index, step in enumerate(self.steps)
        ]

    @property
    def steps_left_out(self) -> list[str]:
        """The steps of the protocol that have no row: neither a case nor a reason."""
        return [step for step in STEPS if step not in self.steps]

    def _cell(self, step: str, fault: str) -> dict[str, Any]:
        """The cell's cases, and its blanks by reason, each with the letters of the sinks it is given for."""
        sinks: dict[str, list[str]] = {}
        for blank in self._blanks.get((step, fault), []):
            sinks.setdefault(blank["reason"], []).extend([blank["sink"]] if blank["sink"] else [])
        return {
            "fault": fault,
            "cases": self._cases.get((step, fault), []),
            "blanks": [
                {
                    "number": self.reasons[reason],
                    "reason": reason,
                    "sinks": names,
                    "letters": "".join(self._letters[name] for name in names),
                }
                for reason, names in sinks.items()
            ],
        }

    @property
    def not_run(self) -> int:
        """How many cells hold neither a case nor a reason."""
        return sum(not cell["cases"] and not cell["blanks"] for row in self.rows for cell in row["cells"])


class PairGrid:
    """The pairs: a row per first fault, a column per second fault, each as (fault, step)."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.seconds = sorted({_kind(case["second"]) for case in cases}, key=_kind_order)
        self.firsts = sorted({_kind(case) for case in cases}, key=_kind_order)
        self._cases: dict[tuple[tuple[str, str], tuple[str, str]], list[Case]] = {}
        for case in cases:
            self._cases.setdefault((_kind(case), _kind(case["second"])), []).append(case)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row per first fault."""
        return [
            {"first": first, "cells": [self._cases.get((first, second), []) for second in self.seconds]}
            for first in self.firsts
        ]


def _kind(fault: Mapping[str, Any]) -> tuple[str, str]:
    return fault["fault"], fault["step"]


def _kind_order(kind: tuple[str, str]) -> tuple[int, str, str]:
    fault, step = kind
    return step_order(step), step, fault


def _by_place(items: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    places: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in items:
        places.setdefault((item["step"], item["fault"]), []).append(item)
    return places
