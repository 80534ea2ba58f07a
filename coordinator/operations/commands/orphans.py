"""Branches that dead pipelines have left prepared in the systems of this one: listed, and aborted on order.

A silent pipeline may be parked with a decided epoch, and a system that has failed over may hold the branches of a
complete one prepared again: rows that nobody may drop. So only what its own log has not decided is aborted, or what is
given up, on the record or by name. That a pipeline is gone shows by its silence; `younger_orphans` goes past that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any

from tpc.consistency import knows_owner, naming_of
from tpc.coordinator.kernel.job import Job
from tpc.coordinator.kernel.planned_actions import may_be_pruned
from tpc.coordinator.operations.commands.younger_orphans import Override, YoungerOrphans
from tpc.data_status import annotate_errors, data_status_for_abort, data_status_for_reader
from tpc.history import History
from tpc.sink import Committer, InDoubt, Owner
from tpc.waiting import KeepsWaiting, Waiting

_LOOK = "look whether its rows are missed: if not, give it up by name (--lost); if they are, commit it by hand"


def orphans_beside(
    pipeline: Job,
    *,
    silent_for_s: float,
    now_s: float,
    abort: bool,
    logs: Sequence[History] = (),
    lost: Collection[str] = (),
    although_younger: Override | None = None,
) -> list[dict[str, Any]]:
    """Branches that other pipelines have left in this pipeline's systems, and abort them if told to.

    An orphan's pipeline has an owner entry in that sink which nobody has changed for `silent_for_s`; a pipeline that
    runs changes it at least every six hours. Branches without an owner entry are listed and never aborted. Of orphans
    those are aborted that the log of their pipeline, one of `logs`, has not decided, or has given up in a complete
    epoch, and the resources in `lost`; without `abort` the logs given say which these are. `although_younger` goes past
    the silence, for the resources in `lost` alone, as far as `younger_orphans` finds no evidence against it. Keys:
    `sink`, `pipeline`, `resource`, `epoch` (None where the system does not tell it), `silent_for_s` (None without an
    owner entry), `waiting` (None, or who waits until when), `recorded` (the file of an override's record), `fate`.
    """
    coordinator = pipeline.coordinator()
    with annotate_errors(data_status_for_abort if abort else data_status_for_reader), closing(coordinator):
        committers = coordinator.participants.committers
        listed = {name: _of_others(committer, pipeline) for name, committer in committers.items()}

        def is_young_and_lost(doubt: InDoubt, owner: Owner | None) -> bool:
            return owner is not None and now_s - owner.since < silent_for_s and doubt.resource in lost

        younger = None
        if abort and although_younger is not None:
            young = {name: [one for one in found if is_young_and_lost(*one)] for name, found in listed.items()}
            younger = YoungerOrphans(pipeline, committers, young, although_younger)

        def spared(doubt: InDoubt, owner: Owner | None, waits: Waiting | None) -> str | None:
            """Why a branch is left alone; None for an orphan."""
            if younger is not None and is_young_and_lost(doubt, owner):
                of_its_log = any(history.pipeline == doubt.pipeline for history in logs)
                by_log = _may_be_decided(doubt, owner, logs) if of_its_log else None
                return by_log or younger.evidence_against(doubt, waits)
            alive = _alive(None if owner is None else now_s - owner.since, silent_for_s)
            if alive is not None or not (abort or logs) or doubt.resource in lost:
                return alive
            return _may_be_decided(doubt, owner, logs)

        rows = []
        for name, committer in committers.items():
            waiting = _waiting(committer, [doubt for doubt, _ in listed[name]])
            doomed = []
            for doubt, owner in listed[name]:
                waits = waiting.get(doubt.resource)
                why = spared(doubt, owner, waits)
                row = _row(name, doubt, owner, waits, now_s)
                row["fate"] = f"left alone: {why}" if why else "aborted" if abort else "orphan"
                if why is None:
                    doomed.append(doubt)
                    if younger is not None and is_young_and_lost(doubt, owner):
                        row["recorded"] = younger.record(doubt, owner, now_s)
                rows.append(row)
            if abort and doomed:
                committer.abort(doomed)
        return rows


def _row(sink: str, doubt: InDoubt, owner: Owner | None, waiting: Waiting | None, now_s: float) -> dict[str, Any]:
    return {
        "sink": sink,
        "pipeline": str(doubt.pipeline),
        "resource": doubt.resource,
        "epoch": doubt.epoch,
        "silent_for_s": None if owner is None else now_s - owner.since,
        "waiting": None if waiting is None else waiting.to_json(),
        "recorded": None,
    }


def waiting_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """For people: who waits for what is left, and what an override has lost and where it is on record."""
    lines = [
        f"{row['resource']}: {Waiting(w['who'], w['until'], w['may_be_decided'])}"
        for row in rows
        if (w := row["waiting"]) is not None and row["fate"] != "aborted"
    ]
    lines += [
        f"{row['resource']}: aborted by name, on record in {row['recorded']}. LOST in sink {row['sink']}: its rows, if "
        "their epoch was decided; other sinks of its pipeline may have theirs"
        for row in rows
        if row["recorded"] is not None
    ]
    return lines


def _waiting(committer: Committer, doubts: Sequence[InDoubt]) -> Mapping[str, Waiting]:
    return committer.waiting(doubts) if isinstance(committer, KeepsWaiting) else {}


def _of_others(committer: Committer, pipeline: Job) -> list[tuple[InDoubt, Owner | None]]:
    return [(doubt, owner) for doubt, owner in committer.all_in_doubt() if doubt.pipeline != pipeline.id]


def _alive(silence_s: float | None, silent_for_s: float) -> str | None:
    if silence_s is None:
        return "it has no owner entry"
    if silence_s >= silent_for_s:
        return None
    return (
        f"its pipeline is taken for alive: it renewed its owner entry {silence_s / 3600:.1f} hours ago, and one that "
        "runs does that every six hours. If it and its log are gone: --lost, with --although-younger --reason TEXT"
    )


def _may_be_decided(doubt: InDoubt, owner: Owner | None, logs: Sequence[History]) -> str | None:
    """Why the branch may belong to a decided epoch, as far as the logs given can tell; None when it does not."""
    history = next((history for history in logs if history.pipeline == doubt.pipeline), None)
    if history is None:
        return "it may be decided: give the log of its pipeline (--log), or give it up by name (--lost)"
    if history.damaged:
        return "the end of its pipeline's log is damaged, and may have decided it"
    if doubt.generation > history.generation or not knows_owner(history, doubt.sink, owner):
        return "its pipeline has run on another log than the one given"
    return _decided(history, doubt)


def _decided(history: History, doubt: InDoubt) -> str | None:
    naming = naming_of(history, doubt)
    if naming is None:
        return _pruned(doubt) if may_be_pruned(history, doubt) else None
    if not naming.is_complete:
        return f"its pipeline has decided it, in epoch {naming.epoch}: finish that (tpc recover)"
    if doubt.epoch is None:
        return (
            f"complete epoch {naming.epoch} of its pipeline has a branch of this name, and its system does not tell "
            f"of which epoch this one is; {_LOOK}"
        )
    if naming.is_given_up:
        return None
    if not doubt.only_copy:
        return (
            f"complete epoch {naming.epoch} of its pipeline names it, so it is left of what was committed, or its "
            f"commit is lost in the sink; {_LOOK}"
        )
    return (
        f"epoch {naming.epoch} of its pipeline is decided and complete by the log, and its commit is lost in the sink: "
        "commit it by hand, the lowest epoch first (in PostgreSQL COMMIT PREPARED), or give it up by name (--lost)"
    )


def _pruned(doubt: InDoubt) -> str:
    if doubt.epoch is None:
        return f"it may be of a complete epoch that is pruned from its pipeline's log; {_LOOK}"
    return f"epoch {doubt.epoch} of its pipeline is complete and pruned from the log, which may have named it; {_LOOK}"
