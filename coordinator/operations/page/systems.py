"""What systems have said (`asking`), beside what the log says: of the branches of an epoch, and of every sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpc.consistency import knows_owner, naming_of
from tpc.coordinator.kernel.fates import fate_of
from tpc.coordinator.operations.page.asking import Said
from tpc.coordinator.operations.page.watching import Watched
from tpc.history import History
from tpc.sink import InDoubt

NOT_ASKED = (
    "The systems were not asked: only a log was named, and it holds no way to reach them. Name the job "
    "(module:function), or open the page in the driver (ui_port=)."
)


def branch_in_words(said: Mapping[str, Said], branch: Mapping[str, Any], epoch: int, *, is_complete: bool) -> str:
    """What its system says of a branch of `epoch` now. Absence alone is no proof of anything, and is told as absence.

    Kafka's listing tells no epoch, and its resources are used again once their epoch is complete: of such a branch one
    that is listed then is a later one's.
    """
    sink = said.get(branch["sink"])
    if sink is None:
        return "not asked: the job has no such sink now"
    if sink.why_not is not None:
        return f"not known: {sink.why_not}"
    for doubt, _ in sink.in_doubt:
        if doubt.resource == branch["resource"] and (doubt.epoch == epoch or (doubt.epoch is None and not is_complete)):
            return "prepared: in doubt"
    if sink.shown is not None and sink.shown >= epoch:
        return f"not in doubt; it shows epoch {sink.shown}"
    return f"not in doubt, and it shows {'no epoch' if sink.shown is None else f'epoch {sink.shown}'}"


def of_epoch(one: Watched, report: Mapping[str, Any]) -> dict[str, Any]:
    """For the page of an epoch: whom was asked when, and each branch's words, in the order of the report."""
    if one.sinks is None:
        return {"not_asked": NOT_ASKED, "said": [], "branch_says": []}
    said = one.sinks.say()
    by_sink, is_complete = {each.sink: each for each in said}, report["status"] == "complete"
    branches = [
        branch_in_words(by_sink, branch, report["epoch"], is_complete=is_complete) for branch in report["branches"]
    ]
    return {"not_asked": None, "said": [each for each in said if each.sink in report["sinks"]], "branch_says": branches}


def of_pipeline(one: Watched, now: float) -> dict[str, Any]:
    """For the page of the sinks: of each what it shows and who owns it, and all branches in doubt."""
    history = None if one.look.window is None else one.look.window.history
    if one.sinks is None or history is None:
        return {"not_asked": NOT_ASKED if one.sinks is None else "The log could not be read yet.", "sinks": []}
    return {"not_asked": None, "sinks": [_sink(said, history, now) for said in one.sinks.say()]}


def _sink(said: Said, history: History, now: float) -> dict[str, Any]:
    return {
        "name": said.sink,
        "kind": said.kind,
        "asked_at": said.asked_at,
        "why_not": said.why_not,
        "shown": said.shown,
        "by_log": history.last_epoch_of(said.sink),
        "owner": _owner(said, history),
        "owned_since": None if said.owner is None else said.owner.since,
        "oldest_s": max((now - since for _, since in said.in_doubt), default=None),
        "in_doubt": [
            {
                "resource": doubt.resource,
                "generation": doubt.generation,
                "epoch": doubt.epoch,
                "since": since,
                "fate": _fate(history, doubt, said.asked_at),
            }
            for doubt, since in said.in_doubt
        ],
    }


def _fate(history: History, doubt: InDoubt, asked_at: float) -> str:
    """The log may be read later than a system was asked: a branch of an epoch that is complete since is not lost."""
    naming = naming_of(history, doubt)
    if naming is not None and history.completed.get(naming.epoch, {}).get("completed_at", asked_at) > asked_at:
        return f"commit: epoch {naming.epoch} is complete since this system was asked"
    return fate_of(history, doubt)


def _owner(said: Said, history: History) -> str:
    if said.owner is None:
        return "nobody"
    known = "" if knows_owner(history, said.sink, said.owner) else ", of a log that is not this one, or not read so far"
    return f"generation {said.owner.generation}{known}"
