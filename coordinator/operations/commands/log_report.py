"""What a look at every record of a log comes to, as plain data and as lines, with what a start would do about it.

What is looked at is in `log.checking`. No sink and no checkpoint of Spark is asked: `tpc check` does that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tpc.coordinator.kernel.checkpoint import Checkpoint
from tpc.coordinator.kernel.log.checking import CheckedLog, Flaw, check_log
from tpc.coordinator.kernel.log.contract import Log
from tpc.coordinator.kernel.parked import ParkedNote
from tpc.coordinator.operations.commands.targets import fill
from tpc.data_status import annotate_errors, data_status_for_reader
from tpc.history import History
from tpc.manifest import Manifest


def log_report(log: Log, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """The facts about a log. `start` is what a start would do: `does` is one of "go on", "finish", "void", "refuse".

    With `checkpoint`, a decided epoch that a sink has refused is told as parked. Changes nothing.
    """
    with annotate_errors(data_status_for_reader):
        checked = check_log(log)
    history = checked.history
    return {
        "log": checked.where,
        "pipeline": None if history is None else str(history.pipeline),
        "generation": None if history is None else history.generation,
        "records": dict(checked.counts),
        "first_slot": checked.first,
        "last_slot": checked.last,
        "left_by_pruning": checked.pruned,
        "voided_slots": list(checked.voided),
        "flaws": [_flaw(checked, flaw) for flaw in checked.flaws],
        "whole": not checked.flaws,
        "start": _start(checked, checkpoint),
    }


def _flaw(checked: CheckedLog, flaw: Flaw) -> dict[str, Any]:
    at_end = checked.history is not None and any(flaw.slot == damaged.slot for damaged in checked.history.damaged)
    remedy = "see what a start would do, below." if at_end else flaw.remedy
    return {"kind": flaw.kind, "slot": flaw.slot, "where": flaw.where, "what": flaw.what, "remedy": remedy}


def _start(checked: CheckedLog, checkpoint: Checkpoint | None) -> dict[str, Any]:
    history = checked.history
    if history is None:
        assert checked.refusal is not None
        return {"does": "refuse", "what": checked.refusal.what, "remedy": checked.refusal.remedy}
    goes_on = _goes_on(history, checkpoint)
    if history.damaged:
        slots = ", ".join(str(damaged.slot) for damaged in history.damaged)
        return {
            "does": "void",
            "what": f"ask every sink whether it shows anything that the damaged record in slot {slots} may have "
            f"decided. If none does: void it on the record and {goes_on['what']}. If one does: refuse",
            "remedy": f"{_start_or_recover()}; where that refuses, restore the record from a backup or a mirror.",
        }
    return goes_on


def _goes_on(history: History, checkpoint: Checkpoint | None) -> dict[str, Any]:
    pending = history.pending
    if pending is None:
        last = history.last_complete
        what = "begin with epoch 0" if last is None else f"go on after epoch {last}, which is complete"
        return {"does": "go on", "what": what, "remedy": ""}
    parked = None if checkpoint is None else ParkedNote(checkpoint.notes).of(history)
    what = f"finish epoch {pending.epoch}, which is decided and not complete: {_wait(history, pending)}"
    if parked is None:
        return {"does": "finish", "what": what, "remedy": f"{_start_or_recover()}."}
    return {
        "does": "finish",
        "what": f"{what}. Sink {parked['sink']} has refused it: {parked['what']}; a start asks it once more",
        "remedy": "remove the cause and start, or record a decision: `tpc resolve`.",
    }


def _start_or_recover() -> str:
    return fill("start the pipeline, or run `tpc recover MODULE:PIPELINE`")


def _wait(history: History, pending: Manifest) -> str:
    """Which sinks must commit how many branches, and which were given up."""
    told = []
    for name, part in sorted(pending.sinks.items()):
        if part.branches:
            given_up = history.resolution(pending.epoch, name) is not None
            done = "an operator has given up" if given_up else "commit"
            told.append(f"{done} {len(part.branches)} {'branch' if len(part.branches) == 1 else 'branches'} in {name}")
    return ", ".join(told) or "no sink has a branch of it"


def log_lines(report: dict[str, Any]) -> Iterator[str]:
    """`report` for people."""
    yield f"log {report['log']}"
    if report["pipeline"] is not None:
        yield f"pipeline {report['pipeline']}, generation {report['generation']}"
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(report["records"].items())) or "none"
    yield f"records in slots {report['first_slot']} to {report['last_slot']}: {counts}"
    if report["left_by_pruning"]:
        yield f"{report['left_by_pruning']} slots below slot {report['first_slot']} are pruned and not deleted yet"
    if report["voided_slots"]:
        slots = ", ".join(map(str, report["voided_slots"]))
        yield f"damaged and voided on the record, so of no account: slot {slots}"
    for flaw in report["flaws"]:
        yield f"{flaw['kind']}: slot {flaw['slot']}, {flaw['where']}: {flaw['what']}. To do: {flaw['remedy']}"
    if report["whole"]:
        yield "every record is whole, no slot is missing, and each follows the one before it"
    start = report["start"]
    refused = start["does"] == "refuse"
    yield f"a start would {'be refused: ' if refused else ''}{start['what'].rstrip('.')}."
    if start["remedy"]:
        yield f"To do: {start['remedy']}"
