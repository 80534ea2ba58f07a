"""The HTML report of `make clusters`: servers as they are run in production, what struck them, what was refused.

Turns the record of a run (`cases.json`: its cases, each with its suite) into what `clusters.html.j2` shows. Faults are
those with a strike on record; rights, refusals and rotations are distinguished from them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tpc.chaos.reports.matrix import step_order
from tpc.chaos.reports.parts import day_and_time, tallied_checks, took, write_page

FAULTS = "faults"
SIGNS: Mapping[str, str] = {"failed": "✗", "skipped": "-", "passed": "✓"}
"""How a case can end, the worst first, with the sign that says so without colour."""


def write_clusters_report(path: Path, record: Mapping[str, Any]) -> Path:
    """Write the report of a run to `path` and return it."""
    return write_page(path, "clusters.html.j2", clusters_view(record))


def clusters_view(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows."""
    cases = [_case_view(number, case) for number, case in enumerate(record["cases"], start=1)]
    faults = [case for case in cases if case["kind"] == FAULTS]
    return {
        "signs": SIGNS,
        "when": day_and_time(record["began_at"]),
        "took": took(record["seconds"]),
        "cases": cases,
        "outcomes": _counted(cases),
        "missing": max(record["planned"] - len(cases), 0),
        "faults": faults,
        "fault_outcomes": _counted(faults),
        "others": len(cases) - len(faults),
        "proven": sum(case["proven"] for case in faults),
        "failed": [case for case in cases if case["outcome"] == "failed"],
        "skipped": [case for case in cases if case["outcome"] == "skipped"],
        "steps": sorted({case["fault"]["step"] for case in faults if case["fault"]}, key=step_order),
        "suites": _suites(cases),
        "checks": tallied_checks(case["checks"] for case in faults),
    }


def _counted(cases: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    counted = Counter(case["outcome"] for case in cases)
    return {outcome: counted[outcome] for outcome in SIGNS}


def _case_view(number: int, case: Mapping[str, Any]) -> dict[str, Any]:
    fault = case.get("fault", {})
    timeline = case.get("timeline", [])
    return {
        **case,
        "anchor": f"case-{number}",
        "sign": SIGNS[case["outcome"]],
        "title": _title(case["name"]),
        "fault": fault,
        "facts": {
            name: value if isinstance(value, (str, int, float)) else json.dumps(value)
            for name, value in fault.items()
            if value not in ([], {}, None)
        },
        "proven": bool(fault.get("between_prepare_and_complete")),
        "timeline": timeline,
        "checks": case.get("checks", []),
        "complete_after_s": _complete_after_s(timeline),
        "again": f"make clusters ARGS=\"--only '{_selected(case['name'])}'\"",
    }


def _title(name: str) -> str:
    """A test's name as a sentence, with what it was tried with."""
    words, _, variant = name.partition("[")
    sentence = words.rpartition("::")[2].removeprefix("test_").replace("_", " ")
    return f"{sentence}: {variant.rstrip(']')}" if variant else sentence


def _selected(name: str) -> str:
    """What of a name an expression of `pytest -k` can say: its words, without what is in brackets."""
    words, _, variant = name.rpartition("::")[2].partition("[")
    parts = [part for part in re.split(r"[^\w.-]+", variant.rstrip("]")) if part]
    return " and ".join([words, *parts])


def _complete_after_s(timeline: Sequence[Mapping[str, Any]]) -> float | None:
    """From the strike to the complete record of the epoch that it struck."""
    struck = next((line["s"] for line in timeline if line["what"].startswith("strikes at ")), None)
    complete = [line["s"] for line in timeline if line["what"].startswith("epoch.completed ")]
    if struck is None or not complete or complete[-1] < struck:
        return None
    return float(complete[-1]) - float(struck)


def _suites(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each suite, a file of cases, in the order of the run; faults by the step at which they struck."""
    suites = []
    for number, file in enumerate(dict.fromkeys(case["file"] for case in cases), start=1):
        members = [case for case in cases if case["file"] == file]
        by_step: dict[str, list[Mapping[str, Any]]] = {}
        for case in members:
            if case["fault"]:
                by_step.setdefault(case["fault"]["step"], []).append(case)
        suites.append(
            {
                "anchor": f"suite-{number}",
                "heading": members[0].get("suite") or file,
                "about": members[0].get("about", ""),
                "cases": members,
                "by_step": by_step,
                "faults": sum(case["kind"] == FAULTS for case in members),
                "proven": sum(case["proven"] for case in members),
                "outcomes": _counted(members),
                "seconds": sum(case["seconds"] for case in members),
            }
        )
    return suites
