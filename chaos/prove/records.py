"""The record of a proof: one entry per explored search, covered transition, block of seeds, control and mutant.

The closing line and the verdict are computed from the entries, not kept beside them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpc.chaos.explorer.whole import Whole
from tpc.chaos.prove.controls import Controls
from tpc.chaos.prove.machine.scores import NOTICED, Tried
from tpc.chaos.prove.trial import Fate, MutantTrial
from tpc.machine import TRANSITIONS

Entry = dict[str, Any]
MOST_MISSED = 3
"""Of the sample of the machine's mutants: where the checks notice 97 %, more are missed in one proof of two hundred."""
SEARCH, SEEDS, TRANSITION, CONTROL, MUTANT, MACHINE = "search", "seeds", "transition", "control", "mutant", "machine"


def search_entries(whole: Whole) -> list[Entry]:
    """What the explorer has searched; `missed` is what none of the searches has taken."""
    return [{"kind": SEARCH, **search, "missed": whole.missed} for search in whole.to_json()]


def seed_entry(block: Mapping[str, Any]) -> Entry:
    """A block of simulated seeds."""
    return {"kind": SEEDS, **block}


def mutant_entry(trial: MutantTrial) -> Entry:
    """A mutant, and who caught it."""
    return {"kind": MUTANT, **trial.to_json()}


def machine_entry(tried: Tried) -> Entry:
    """A mutant of the machine: its place and its difference, and its trial, or why nothing can notice it."""
    return {"kind": MACHINE, **tried.to_json()}


def control_entries(controls: Controls) -> list[Entry]:
    """What the checks made of the code as it is."""
    return [{"kind": CONTROL, **control} for control in controls.to_json()]


def transition_entries(whole: Whole, blocks: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """Every row of the transition table: whether the explorer took it, and how often the simulator did."""
    explored = {row for _, found, _ in whole.searches for row in found.rows_taken}
    simulated: Counter[str] = Counter()
    for block in blocks:
        simulated.update(block["transitions"])
    return [
        {
            "kind": TRANSITION,
            "phase": phase.value,
            "event": event.__name__,
            "explored": f"{phase.name}/{event.__name__}" in explored,
            "simulated": simulated[f"{phase.value}/{event.__name__}"],
        }
        for phase, event in TRANSITIONS
    ]


def closing_line(entries: Sequence[Entry]) -> str:
    """How much was explored, simulated (from which seed to which), caught, not judged, and noticed of the sample."""
    states = sum(entry["states"] for entry in entries if entry["kind"] == SEARCH)
    blocks = [entry for entry in entries if entry["kind"] == SEEDS]
    seeds = f"{sum(block['count'] for block in blocks):,} seeds"
    if blocks:  # as they are given to the command line, without commas
        last = max(block["first"] + block["count"] for block in blocks) - 1
        seeds += f" ({min(block['first'] for block in blocks)} to {last})"
    mutants = [entry for entry in entries if entry["kind"] == MUTANT]
    not_judged = sum(entry["fate"] == Fate.NOT_JUDGED.value for entry in mutants)
    told = f"{sum(map(_is_caught, mutants))} of {len(mutants)} mutants caught, {not_judged} not judged"
    return f"explored {states:,} states, {seeds}, {told}{_sampled(entries)}"


def _sampled(entries: Sequence[Entry]) -> str:
    """How many of the machine's mutants were noticed, and where the others are; without those that change nothing."""
    tried = [entry for entry in entries if entry["kind"] == MACHINE and entry["trial"] is not None]
    missed = [_place(entry) for entry in tried if _is_missed(entry)]
    told = f"{len(tried) - len(missed)} of {len(tried)} of a machine noticed"
    but = f" (not {', '.join(missed)})" if missed else ""
    return f", {told}{but}" if tried else ""


def missed_of_the_machine(entries: Sequence[Entry]) -> list[str]:
    """Each mutant of the machine that nothing notices, with its difference."""
    return [
        f"nothing notices ({entry['trial']['fate']}): {entry['told']}"
        for entry in entries
        if entry["kind"] == MACHINE and _is_missed(entry)
    ]


def _is_missed(entry: Entry) -> bool:
    return entry["trial"] is not None and Fate(entry["trial"]["fate"]) not in NOTICED


def _place(entry: Entry) -> str:
    """Where a mutant of the machine is, and what was changed there."""
    return f"{entry['file']}:{entry['line']} ({entry['operator']})"


def failures(entries: Sequence[Entry]) -> list[str]:
    """Everything that did not hold, in a line each; empty when the proof stands."""
    each = dict.fromkeys(failure for entry in entries if (failure := _failure(entry)))
    missed = len(missed_of_the_machine(entries))
    if missed > MOST_MISSED:
        each[f"machine: nothing notices {missed} mutants of the sample, more than the score allows by chance"] = None
    return list(each)


def _failure(entry: Entry) -> str:
    kind = entry["kind"]
    if kind == SEARCH and entry["violated"] is not None:
        return f"explorer: {entry['violated']}: {entry['what']}\n    " + "\n    ".join(entry["trace"])
    if kind == SEARCH and entry["missed"]:
        return f"explorer: never taken: {', '.join(entry['missed'])}"
    if kind == SEEDS and entry["violations"]:
        told = [f"seed {v['seed']}: {v['invariant']}: {v['what']}" for v in entry["violations"]]
        return f"simulator: {told[0]}" + (f" (and {len(told) - 1} more in this block)" if told[1:] else "")
    if kind == CONTROL and entry["outcome"] not in ("held", "skipped"):
        others = len(entry.get("violations", ())) - 1  # of the simulator
        more = f" (and {others} more seeds)" if others > 0 else ""
        return f"{entry['check']}: the code as it is does not pass: {entry['invariant']} {entry['what']}{more}"
    if kind == MUTANT and not _is_caught(entry):
        return f"mutant {entry['mutant']}: {entry['fate']}: {entry['what']}"
    return ""


def _is_caught(entry: Mapping[str, Any]) -> bool:
    return bool(entry["fate"] == Fate.CAUGHT.value)


def write_record(path: Path, entries: Sequence[Entry]) -> None:
    """Write the record, with its closing line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"line": closing_line(entries), "holds": not failures(entries), "records": list(entries)}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read_record(path: Path) -> list[Entry]:
    """The entries of a record."""
    entries: list[Entry] = json.loads(path.read_text(encoding="utf-8"))["records"]
    return entries
