"""Where each case of the fault matrix stands: steps down, faults across; pairs by their first and second fault.

Only places and order; what a case says is of `matrix`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tpc.chaos.faults.fault import KINDS
from tpc.failpoints import STEPS

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
        """Each reason of a blank with the number that stands in its cells."""
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
